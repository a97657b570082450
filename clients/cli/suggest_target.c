/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/suggest_target.h"

#include "api/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 2000

/* A process chooses its name, which must not control the terminal. */
static bool is_printable(const char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127)
            return false;
    return true;
}

static const char *nearest(const Sonde__V1__ListTargetsResponse *list, const char *word) {
    const char **names = calloc(list->n_targets + 1, sizeof *names);
    const char *found = NULL;
    for (size_t i = 0; names && i < list->n_targets; i++)
        names[i] = is_printable(list->targets[i]->name) ? list->targets[i]->name : NULL;
    if (names)
        found = sonde_nearest(word, names, list->n_targets);
    free(names);
    return found;
}

void suggest_target(struct client *client, const Sonde__V1__TargetSelector *selector,
                    struct sonde_diag *diag) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    request.include_unattached = true;
    if (!diag || !selector || !selector->name[0] ||
        client_unary(client, &client_list_targets, &request.base, TIMEOUT_MS, &answer, NULL) !=
            SONDE_OK)
        return;
    const char *name = nearest((const void *)answer, selector->name);
    size_t len = strlen(diag->text);
    if (name && strcmp(name, selector->name) != 0)
        snprintf(diag->text + len, sizeof diag->text - len, "; did you mean %.63s?", name);
    protobuf_c_message_free_unpacked(answer, NULL);
}
