/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the effects of call frame instructions. The functions of a file have a few thousand
 * different states, and between two advances the same few sequences ("def_cfa_offset 16, offset rbp
 * 16" at a function's start). So each state gets an id, and each sequence that led from one id to
 * another is stored by its bytes. The next time, nothing has to be decoded, applied or looked up.
 * Bounded: when the ids run out, everything that is not in use is forgotten. One thread at a time.
 */
#ifndef SONDE_SERVICE_UNWIND_CFI_CFI_MEMO_H
#define SONDE_SERVICE_UNWIND_CFI_CFI_MEMO_H

#include "api/hash_index.h"
#include "service/unwind/cfi/cfi.h"

#define MEMO_MIN_STATES 256u
#define MEMO_MAX_STATES 4096u
#define MEMO_NO_STATE   UINT32_MAX

/* Up to 8 bytes of instructions without an advance. */
struct memo_sequence {
    uint64_t bytes; /* 0 after its end */
    uint16_t from;  /* id + 1; 0 = no sequence */
    uint16_t to;    /* id */
    uint8_t unused; /* bits of `bytes` after its end */
    uint8_t len;
    uint8_t remembers; /* it begins with remember_state */
};

struct cfi_memo {
    uint32_t count, capacity;
    uint32_t epoch;           /* from 1; ids of an earlier epoch are void */
    struct cfi_state *states; /* [capacity] */
    struct memo_sequence
        *slots;              /* [2 * capacity]; the last sequence that maps to a slot is in it */
    uint16_t *numbers;       /* of each state's rule; 0 = not looked up, or no rule holds it */
    struct hash_index index; /* of states, by id */
};

/* Creates a memo for sections of about that many bytes. NULL when out of memory. */
struct cfi_memo *unwind_memo_create(size_t section_bytes);
void unwind_memo_destroy(struct cfi_memo *memo);
/* Forgets all states and sequences and begins a new epoch. */
void unwind_memo_forget(struct cfi_memo *memo);
/* The id of a state; MEMO_NO_STATE if it is new and there are too many. */
uint32_t unwind_memo_id(struct cfi_memo *memo, const struct cfi_state *state);

/* Where a sequence is stored that begins with the bytes of `word`, lowest first, in state id. Three
 * bytes distinguish most sequences. If the third is an advance, it ends a sequence of two bytes,
 * and its low bits must not matter. */
static inline struct memo_sequence *unwind_memo_slot(const struct cfi_memo *memo, uint32_t id,
                                                     uint64_t word) {
    uint64_t third = (word & 0xc00000) == OP_ADVANCE_LOC << 16 ? 0x400000 : word & 0xff0000;
    uint64_t mixed = (third | (word & 0xffff) | (uint64_t)id << 24) * 0x9e3779b97f4a7c15ull;
    return &memo->slots[mixed >> 40 & (2 * memo->capacity - 1)];
}

#endif
