/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/cfi_memo.h"

#include <stdlib.h>

struct words {
    uint64_t at[5];
};
_Static_assert(sizeof(struct words) == sizeof(struct cfi_state), "a state is five words");
_Static_assert(MEMO_MAX_STATES < UINT16_MAX, "ids are 16 bits wide");

static struct words words_of(const struct cfi_state *state) {
    struct words words;
    memcpy(&words, state, sizeof words);
    return words;
}

void unwind_memo_forget(struct cfi_memo *memo) {
    memo->count = 0;
    memo->epoch++;
    hash_index_clear(&memo->index);
    memset(memo->slots, 0, 2 * memo->capacity * sizeof *memo->slots);
}

struct cfi_memo *unwind_memo_create(size_t section_bytes) {
    struct cfi_memo *memo = calloc(1, sizeof *memo);
    if (!memo)
        return NULL;
    memo->capacity = MEMO_MIN_STATES;
    while (memo->capacity < MEMO_MAX_STATES && memo->capacity < section_bytes / 128)
        memo->capacity *= 2;
    memo->states = malloc(memo->capacity * sizeof *memo->states);
    memo->slots = malloc(2 * memo->capacity * sizeof *memo->slots);
    memo->numbers = malloc(memo->capacity * sizeof *memo->numbers);
    hash_index_init(&memo->index);
    if (!memo->states || !memo->slots || !memo->numbers ||
        !hash_index_reserve(&memo->index, memo->capacity)) {
        unwind_memo_destroy(memo);
        return NULL;
    }
    unwind_memo_forget(memo);
    return memo;
}

void unwind_memo_destroy(struct cfi_memo *memo) {
    if (!memo)
        return;
    free(memo->states);
    free(memo->slots);
    free(memo->numbers);
    hash_index_finish(&memo->index);
    free(memo);
}

static uint32_t add_state(struct cfi_memo *memo, uint32_t hash, const struct cfi_state *state) {
    if (memo->count == memo->capacity || !hash_index_add(&memo->index, hash, memo->count))
        return MEMO_NO_STATE;
    uint32_t id = memo->count++;
    memo->states[id] = *state;
    memo->numbers[id] = 0;
    return id;
}

uint32_t unwind_memo_id(struct cfi_memo *memo, const struct cfi_state *state) {
    struct words words = words_of(state);
    const struct hash_index *index = &memo->index;
    uint64_t mixed = hash_index_mix(index, hash_index_mix(index, words.at[0], words.at[1]),
                                    hash_index_mix(index, words.at[2], words.at[3]));
    uint32_t hash = hash_index_words(index, mixed, words.at[4]);
    struct hash_probe probe = hash_probe(hash);
    uint32_t id;
    while ((id = hash_index_next(index, &probe)) != HASH_INDEX_NONE) {
        struct words there = words_of(&memo->states[id]);
        if (memcmp(&there, &words, sizeof words) == 0)
            return id;
    }
    return add_state(memo, hash, state);
}
