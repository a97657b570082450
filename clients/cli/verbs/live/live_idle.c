/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/live/live_data.h"

#include <stdlib.h>

#define IDLE_PERCENT 90 /* as in api/profile/select/idle.c */

bool live_hide_idle(struct live_view *view, bool is_on) {
    uint64_t *sums = calloc(view->threads.count + 1, sizeof *sums);
    for (uint32_t i = 0; sums && i < view->stack_count; i++)
        if (view->stacks[i].thread != UINT32_MAX)
            sums[view->stacks[i].thread] += view->stacks[i].ns;
    for (uint32_t i = 0; sums && i < view->stack_count; i++) {
        struct stack *stack = &view->stacks[i];
        stack->is_hidden = is_on && stack->thread != UINT32_MAX &&
                           stack->ns * 100 >= sums[stack->thread] * IDLE_PERCENT;
    }
    bool is_done = sums != NULL;
    free(sums);
    return is_done;
}
