/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/cfi_memo.h"

#include <stdlib.h>

struct words {
    uint64_t at[4];
};
_Static_assert(sizeof(struct words) == sizeof(struct cfi_state), "a state is four words");
_Static_assert(MEMO_MAX_STATES < UINT16_MAX, "ids and slots are 16 bits wide");

static struct words words_of(const struct cfi_state *state) {
    struct words words;
    memcpy(&words, state, sizeof words);
    return words;
}

void unwind_memo_forget(struct cfi_memo *memo) {
    memo->count = 0;
    memo->epoch++;
    memset(memo->slots, 0, 2 * memo->capacity * sizeof *memo->slots);
    memset(memo->places, 0, 2 * memo->capacity * sizeof *memo->places);
}

struct cfi_memo *unwind_memo_create(size_t section_bytes) {
    struct cfi_memo *memo = calloc(1, sizeof *memo);
    if (!memo)
        return NULL;
    memo->capacity = MEMO_MIN_STATES;
    while (memo->capacity < MEMO_MAX_STATES && memo->capacity < section_bytes / 128)
        memo->capacity *= 2;
    memo->states = malloc(memo->capacity * sizeof *memo->states);
    memo->places = malloc(2 * memo->capacity * sizeof *memo->places);
    memo->numbers = malloc(memo->capacity * sizeof *memo->numbers);
    memo->slots = malloc(2 * memo->capacity * sizeof *memo->slots);
    if (!memo->states || !memo->places || !memo->numbers || !memo->slots) {
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
    free(memo->places);
    free(memo->numbers);
    free(memo->slots);
    free(memo);
}

static uint32_t add_state(struct cfi_memo *memo, const struct cfi_state *state, uint16_t *slot) {
    if (memo->count == memo->capacity)
        return MEMO_NO_STATE;
    uint32_t id = memo->count++;
    memo->states[id] = *state;
    memo->numbers[id] = 0;
    *slot = (uint16_t)(id + 1);
    return id;
}

uint32_t unwind_memo_id(struct cfi_memo *memo, const struct cfi_state *state) {
    struct words words = words_of(state);
    uint64_t mixed = words.at[0] * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 29 ^ words.at[1]) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 31 ^ words.at[2] ^ words.at[3] << 7) * 0x94d049bb133111ebull;
    for (uint32_t at = (uint32_t)(mixed >> 40);; at++) {
        uint16_t *slot = &memo->slots[at & (2 * memo->capacity - 1)];
        if (*slot == 0)
            return add_state(memo, state, slot);
        struct words there = words_of(&memo->states[*slot - 1]);
        if (memcmp(&there, &words, sizeof words) == 0)
            return *slot - 1u;
    }
}
