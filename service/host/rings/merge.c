/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/merge.h"

static bool is_before(const struct merge_head *a, const struct merge_head *b) {
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->ring < b->ring;
}

static void swap(struct merge_head *a, struct merge_head *b) {
    struct merge_head kept = *a;
    *a = *b;
    *b = kept;
}

void merge_push(struct merge *merge, struct merge_head head) {
    struct merge_head *heads = merge->heads;
    size_t at = merge->count++;
    heads[at] = head;
    for (; at > 0 && is_before(&heads[at], &heads[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&heads[at], &heads[(at - 1) / 2]);
}

const struct merge_head *merge_first(const struct merge *merge) {
    return merge->count ? &merge->heads[0] : NULL;
}

void merge_pop(struct merge *merge) {
    struct merge_head *heads = merge->heads;
    heads[0] = heads[--merge->count];
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < merge->count && is_before(&heads[child + 1], &heads[child]))
            child++;
        if (child >= merge->count || !is_before(&heads[child], &heads[at]))
            return;
        swap(&heads[at], &heads[child]);
        at = child;
    }
}
