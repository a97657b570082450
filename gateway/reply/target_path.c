/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/target_path.h"

#include "gateway/request/path.h"

#include <string.h>

/* A name finds attached processes before others. */
static bool has_namesake(const Sonde__V1__ListTargetsResponse *list,
                         const Sonde__V1__Target *target) {
    for (size_t i = 0; i < list->n_targets; i++)
        if (list->targets[i] != target && !list->targets[i]->unattached &&
            strcmp(list->targets[i]->name, target->name) == 0)
            return true;
    return false;
}

void target_path_append(struct sonde_buf *out, const Sonde__V1__ListTargetsResponse *list,
                        const Sonde__V1__Target *target) {
    struct sonde_slice name = sonde_slice_of(target->name);
    int32_t pid;
    sonde_buf_puts(out, "/t/");
    if (target->unattached || !path_is_name(name) || path_is_pid(name, &pid) ||
        has_namesake(list, target))
        sonde_buf_printf(out, "%d", (int)target->pid);
    else
        path_append_encoded(out, name);
}
