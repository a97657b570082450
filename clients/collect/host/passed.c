/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/host/passed.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

#define STACK (1ull << 63) /* in a key's second word, which is below that for frames */

void passed_init(struct passed *passed) {
    *passed = (struct passed){.count = 0};
    hash_index_init(&passed->index);
}

void passed_finish(struct passed *passed) {
    hash_index_finish(&passed->index);
    free(passed->keys);
}

void passed_clear(struct passed *passed) {
    hash_index_clear(&passed->index);
    passed->count = 0;
}

void passed_expire(struct passed *passed, int64_t now_ms) {
    if (now_ms - passed->begin_ms < PASSED_FORGET_S * 1000)
        return;
    passed_clear(passed);
    passed->begin_ms = now_ms;
}

static bool make_room(struct passed *passed) {
    if (passed->count == PASSED_MAX)
        passed_clear(passed);
    return array_room(&passed->keys, &passed->capacity, passed->count, 1);
}

static bool needs(struct passed *passed, uint64_t a, uint64_t b) {
    uint32_t hash = hash_index_words(&passed->index, a, b), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&passed->index, &probe)) != HASH_INDEX_NONE)
        if (passed->keys[number][0] == a && passed->keys[number][1] == b)
            return false;
    if (!make_room(passed) || !hash_index_add(&passed->index, hash, passed->count))
        return true;
    passed->keys[passed->count][0] = a;
    passed->keys[passed->count++][1] = b;
    return true;
}

bool passed_needs_frame(struct passed *passed, uint64_t id, uint32_t version, bool has_names) {
    return needs(passed, id, (uint64_t)version << 1 | has_names);
}

bool passed_needs_stack(struct passed *passed, const char *service, uint64_t id) {
    return needs(passed, id, STACK | hash_index_data(&passed->index, service, strlen(service)));
}
