/* SPDX-License-Identifier: Apache-2.0
 *
 * What call frame instructions did before. A file's functions are made of a few thousand states and
 * of the same few phrases between two advances ("def_cfa_offset 16, offset rbp 16" at a function's
 * start). So a state gets an id, and the phrase that led from one id to the next is kept by its
 * bytes: the next time nothing is decoded, changed or looked up among the rules. Bounded: when the
 * ids run out all is forgotten but what is in use. One thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_CFI_CFI_MEMO_H
#define SONDE_SERVICE_UNWIND_CFI_CFI_MEMO_H

#include "api/hash_index.h"
#include "service/unwind/cfi/cfi.h"

#define MEMO_MIN_STATES 256u
#define MEMO_MAX_STATES 4096u
#define MEMO_NO_STATE   UINT32_MAX

/* Up to 8 bytes of instructions that are no advance. */
struct memo_phrase {
    uint64_t bytes; /* those behind its end are 0 */
    uint16_t from;  /* id + 1, so that zeroed memory is no phrase */
    uint16_t to;    /* id */
    uint8_t unused; /* bits of `bytes` */
    uint8_t len;
    uint8_t remembers; /* it begins with remember_state */
};

struct cfi_memo {
    uint32_t count, capacity;
    uint32_t epoch;             /* from 1; ids of an earlier one are void */
    struct cfi_state *states;   /* [capacity] */
    struct memo_phrase *places; /* [2 * capacity], one place for many phrases */
    uint16_t *numbers;          /* of each state's rule; 0 = not known, or not to be kept */
    struct hash_index index;    /* of states, by id */
};

/* For sections of about that many bytes. NULL: out of memory. */
struct cfi_memo *unwind_memo_create(size_t section_bytes);
void unwind_memo_destroy(struct cfi_memo *memo);
/* Forgets all states and phrases, and begins an epoch. */
void unwind_memo_forget(struct cfi_memo *memo);
/* The id of a state; MEMO_NO_STATE when there is no room for a new one. */
uint32_t unwind_memo_id(struct cfi_memo *memo, const struct cfi_state *state);

/* Where the phrase that begins with the bytes of `word` (lowest first) in state id is kept. The
 * first three tell most phrases apart; an advance in the third place, whose low bits may be
 * anything, ends one of two. */
static inline struct memo_phrase *unwind_memo_place(const struct cfi_memo *memo, uint32_t id,
                                                    uint64_t word) {
    uint64_t third = (word & 0xc00000) == OP_ADVANCE_LOC << 16 ? 0x400000 : word & 0xff0000;
    uint64_t mixed = (third | (word & 0xffff) | (uint64_t)id << 24) * 0x9e3779b97f4a7c15ull;
    return &memo->places[mixed >> 40 & (2 * memo->capacity - 1)];
}

#endif
