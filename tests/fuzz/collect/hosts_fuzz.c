/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/host_list.h"

#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct discovered_host *host) {
    size_t name = strlen(host->name), address = strlen(host->address);
    if (!sonde_utf8_is_clean(host->name, name) || name == 0 || !strchr(host->address, ':') ||
        address > 400 || host->label_count > HOST_LIST_MAX_LABELS)
        __builtin_trap();
    for (size_t i = 0; i < host->label_count; i++)
        if (strncmp(host->labels[i].name, "__", 2) == 0 ||
            strlen(host->labels[i].value) > HOST_LIST_MAX_LABEL ||
            (i && strcmp(host->labels[i - 1].name, host->labels[i].name) >= 0))
            __builtin_trap();
}

/* A refusal begins with the place; hosts keep their bounds; names and addresses are distinct. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_diag diag = {0};
    struct host_list *list = host_list_create("file f");
    char *text = calloc(1, size + 1);
    if (!list || !text)
        abort();
    if (size)
        memcpy(text, data, size);
    sonde_err err = host_list_is_json(text, size)
                        ? host_list_read_json(list, "f", text, size, &diag)
                        : host_list_read_text(list, "f", text, size, &diag);
    free(text);
    if (err && strncmp(diag.text, "f:", 2) != 0)
        __builtin_trap();
    for (size_t i = 0; i < list->count; i++) {
        check_host(&list->hosts[i]);
        for (size_t j = 0; j < i && i < 50; j++)
            if (strcmp(list->hosts[i].address, list->hosts[j].address) == 0 ||
                strcmp(list->hosts[i].name, list->hosts[j].name) == 0)
                __builtin_trap();
    }
    host_list_destroy(list);
    return 0;
}
