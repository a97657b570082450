/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/live/live_data.h"

#include <stdlib.h>

#define IDLE_PERCENT 90 /* as in api/profile/select/idle.c */

/* A stack by its thread. Threads of a pool have the same name, so the tid counts. */
struct place {
    uint32_t thread, tid, stack;
};

static int by_thread(const void *a, const void *b) {
    const struct place *left = a, *right = b;
    if (left->thread != right->thread)
        return left->thread < right->thread ? -1 : 1;
    return (left->tid > right->tid) - (left->tid < right->tid);
}

/* Hides the stacks of the thread that has the first place. Returns the number of its places. */
static size_t hide_thread(struct live_view *view, const struct place *places, size_t count) {
    size_t end = 0;
    uint64_t sum = 0;
    for (; end < count && by_thread(&places[0], &places[end]) == 0; end++)
        sum += view->stacks[places[end].stack].ns;
    for (size_t i = 0; i < end; i++) {
        struct stack *stack = &view->stacks[places[i].stack];
        stack->is_hidden = stack->ns * 100 >= sum * IDLE_PERCENT;
    }
    return end;
}

bool live_hide_idle(struct live_view *view, bool is_on) {
    struct place *places = calloc(view->stack_count + 1, sizeof *places);
    size_t count = 0;
    if (!places)
        return false;
    for (uint32_t i = 0; i < view->stack_count; i++) {
        struct stack *stack = &view->stacks[i];
        stack->is_hidden = false;
        if (is_on && stack->thread != UINT32_MAX && stack->ns > 0)
            places[count++] = (struct place){stack->thread, stack->tid, i};
    }
    qsort(places, count, sizeof *places, by_thread);
    for (size_t first = 0; first < count;)
        first += hide_thread(view, &places[first], count - first);
    free(places);
    return true;
}
