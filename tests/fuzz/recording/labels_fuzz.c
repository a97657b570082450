/* SPDX-License-Identifier: Apache-2.0
 *
 * SONDE_LABELS and /proc/PID/cgroup with arbitrary contents, separated by the first zero byte. What
 * is accepted must be what a store accepts. */
#include "service/host/processes/cgroup.h"
#include "service/recording/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char cgroup[CGROUP_BYTES];
    struct sonde_arena arena = {0};
    struct labels labels;
    struct sonde_diag diag = {0};
    char *text = malloc(size + 2);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = text[size + 1] = 0;
    cgroup_parse(text + strnlen(text, size) + 1, cgroup);
    const struct labels_source source = {.executable = "fuzz",
                                         .cgroup = cgroup,
                                         .declared = text,
                                         .limit = size > 512 ? 512 : 1023,
                                         .pods = &pod_directories_of_node};
    labels_of(&source, &arena, &labels);
    const struct store_window window = {.event = "on-cpu",
                                        .service = "fuzz",
                                        .host = "",
                                        .instance = "",
                                        .clock = "",
                                        .length_s = 1,
                                        .weight = 1,
                                        .labels = labels.items,
                                        .label_count = labels.count};
    const struct store_batch batch = {.windows = &window, .window_count = 1};
    if (store_check(&batch, &diag) != SONDE_OK || labels.count > LABELS_MAX) {
        fprintf(stderr, "%s\n", diag.text);
        abort();
    }
    sonde_arena_finish(&arena);
    free(text);
    return 0;
}
