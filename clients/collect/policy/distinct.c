/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/distinct.h"

#include <string.h>

/* The first position whose hash is not smaller. */
static uint32_t position(const struct distinct *distinct, uint32_t hash) {
    uint32_t low = 0, high = distinct->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (distinct->hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void distinct_add(struct distinct *distinct, uint32_t hash) {
    uint32_t at = position(distinct, hash), count = distinct->count;
    if (at == DISTINCT_EXACT || (at < count && distinct->hashes[at] == hash))
        return;
    if (count == DISTINCT_EXACT)
        count--; /* the largest leaves */
    memmove(&distinct->hashes[at + 1], &distinct->hashes[at],
            (count - at) * sizeof distinct->hashes[0]);
    distinct->hashes[at] = hash;
    distinct->count = count + 1;
}

uint32_t distinct_count(const struct distinct *distinct) {
    if (distinct->count < DISTINCT_EXACT)
        return distinct->count;
    /* The largest kept hash is the k-th smallest of all. */
    double largest = (double)distinct->hashes[DISTINCT_EXACT - 1] + 1;
    double count = (DISTINCT_EXACT - 1) * 4294967296.0 / largest;
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}
