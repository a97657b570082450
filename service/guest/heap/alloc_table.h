/* SPDX-License-Identifier: Apache-2.0
 *
 * What Sonde's allocation sampler has recorded, in memory that it shares with sonded: one memfd,
 * written by the guest. sonded reads it at any time, so a snapshot does not stop the process.
 *
 *     page 0: struct alloc_header | entries: one per live sample | slots of stacks | stacks
 *
 * An entry is a sampled block that has not been freed. Its version is odd while the entry is being
 * written and grows with each change: a reader copies the entry between two equal even versions.
 * Address 0 means a free entry.
 *
 * A stack is written once and then published through a slot, which holds its offset in units of 8
 * bytes (0 = none). It stays until the sampler is off; its totals only grow. Values are estimates:
 * a block of `size` bytes that was sampled with probability p counts 1 / p objects and size / p
 * bytes. Doubles are stored as their bits.
 *
 * Two stacks with equal pcs in different files, because a library took the place of another, are
 * two
 * stacks: their generations differ. The generations are those of the guest's messages Maps.
 *
 * Everything is bounded; what does not fit is dropped and counted. sonded checks every value. */
#ifndef SONDE_SERVICE_GUEST_HEAP_ALLOC_TABLE_H
#define SONDE_SERVICE_GUEST_HEAP_ALLOC_TABLE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define ALLOC_MAGIC       0x31636f6c41646e53ull /* "SndAloc1" */
#define ALLOC_PAGE        4096ull
#define ALLOC_ENTRIES     (1u << 20) /* entry 0 is not used */
#define ALLOC_STACK_SLOTS (1u << 19)
#define ALLOC_STACKS      (1u << 18)
#define ALLOC_STACK_BYTES (128ull << 20)
#define ALLOC_PROBES      64u /* slots that are searched for a stack */
#define ALLOC_MAX_DEPTH   127u

/* Where a stack's pcs are, and how it ended. */
struct alloc_place {
    uint32_t generation; /* see struct handler_place; 0 = not known */
    uint32_t closes;     /* ALLOC_PLACE_SETTLED, or dlcloses so far, twice (Maps.closes) */
    uint8_t end;         /* enum ring_stack_end, or ALLOC_END_NO_TABLE_YET */
    uint8_t gap_at;      /* index of the first pc after frames that were left out; 0 = no such pc */
};
#define ALLOC_PLACE_SETTLED    UINT32_MAX
#define ALLOC_END_NO_TABLE_YET 5u /* RING_END_COUNT: the table had not arrived */

/* jemalloc's dumps hold nothing but pcs. So if one of its stacks has a place that differs from that
 * of a complete stack in files that were mapped from the start, its last one or two pcs are the
 * place: addresses that no process has. */
#define ALLOC_TAG_SHIFT  48
#define ALLOC_TAG_CLOSES 0x53d2ull /* low 32 bits: closes; before the other one */
#define ALLOC_TAG_PLACE  0x53d1ull /* 4 bits end, 8 bits gap_at, 4 bits 0, 32 bits generation */
#define ALLOC_TAGS       2u

static inline uint64_t alloc_tag_of(const struct alloc_place *place) {
    return ALLOC_TAG_PLACE << ALLOC_TAG_SHIFT | (uint64_t)(place->end & 15) << 44 |
           (uint64_t)place->gap_at << 36 | place->generation;
}

static inline uint64_t alloc_closes_tag_of(const struct alloc_place *place) {
    return ALLOC_TAG_CLOSES << ALLOC_TAG_SHIFT | place->closes;
}

enum alloc_drop {
    ALLOC_DROP_LIVE,   /* no room for a live sample */
    ALLOC_DROP_STACKS, /* no room for a stack */
    ALLOC_DROP_NESTED, /* a signal handler allocated inside the sampler */
    ALLOC_DROP_COUNT
};

struct alloc_header {
    uint64_t magic;
    uint32_t version;         /* 1 */
    uint32_t flags;           /* ALLOC_HAS_PLACES; 0.2 had none */
    _Atomic uint64_t samples; /* since the memory was made or emptied */
    _Atomic uint64_t drops[ALLOC_DROP_COUNT];
    _Alignas(64) _Atomic uint32_t entries_used; /* entries below this number may be live */
    _Atomic uint32_t stack_count;
    _Atomic uint64_t stack_used; /* bytes */
};

struct alloc_entry {
    _Atomic uint64_t version;
    _Atomic uint64_t address; /* 0 = free */
    uint64_t size;
    uint64_t objects; /* bits of a double: 1 / p */
    uint64_t time_ns; /* CLOCK_MONOTONIC, accurate to a few milliseconds */
    uint32_t stack;   /* offset / 8 */
    uint32_t tid;
};

struct alloc_stack {
    _Atomic uint64_t objects, bytes; /* bits of doubles: totals, freed blocks included */
    _Atomic uint64_t samples;
    uint32_t number; /* from 0, below stack_count */
    uint16_t depth;
    uint16_t hash;
    uint64_t pcs[]; /* leaf first: return addresses, except those marked RING_PC_EXACT */
};

/* Behind the pcs of each stack is its place, if the header has this flag. */
#define ALLOC_HAS_PLACES  1u
#define ALLOC_PLACE_BYTES 16u /* a multiple of 8, as all sizes of stacks are */
static_assert(sizeof(struct alloc_place) <= ALLOC_PLACE_BYTES, "a place fits");

#define ALLOC_ENTRIES_AT ALLOC_PAGE
#define ALLOC_SLOTS_AT   (ALLOC_ENTRIES_AT + ALLOC_ENTRIES * sizeof(struct alloc_entry))
#define ALLOC_STACKS_AT  (ALLOC_SLOTS_AT + ALLOC_STACK_SLOTS * sizeof(uint32_t))
#define ALLOC_BYTES      (ALLOC_STACKS_AT + ALLOC_STACK_BYTES)

static inline double alloc_double(uint64_t bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t alloc_bits(double value) {
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
