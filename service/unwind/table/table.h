/* SPDX-License-Identifier: Apache-2.0
 *
 * The compact unwind table of one ELF file: what sonded compiles from .eh_frame (or .debug_frame)
 * and the guest's signal handler walks. One contiguous read-only image, the same in the disk cache
 * and in the sealed memfd:
 *
 *     header | hot rules: u64 each | rules | page index: u32 each | rows: rule (u16 each) | rows:
 * pc (u8 each) | slack
 *
 * A row says: from this pc up to the next row's pc, this rule holds. A pc is an ELF vaddr minus
 * header.base. Text is cut into pages of 256 bytes and the index gives each page's first row, so
 * that of a row's pc only the low byte need be stored, and a look-up is: index[page], index[page +
 * 1], then count the page's bytes that are <= the pc's low byte. When that count is 0 the row
 * before (of an earlier page) still holds, and that is again index[page] + count - 1. Three bytes a
 * row and half a byte of index; libLLVM's 1.3 million rows are 5 MB.
 *
 * A hot rule is the part of a rule that nearly every frame needs, packed into 8 bytes. Readers:
 * service/guest/signal/walk.c (signal-safe; trusts an image that unwind_table_check has passed),
 * service/engine's checks, tests. Everything is little-endian. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>

#define UNWIND_MAGIC     0x31626154646e6f53ull /* "SondTab1" */
#define UNWIND_VERSION   2u
#define UNWIND_PAGE      256u
#define UNWIND_MAX_TEXT  (1u << 30) /* bytes of address space one table may span */
#define UNWIND_MAX_RULES 65535u
#define UNWIND_SLACK     16u /* readable bytes behind the rows: 8 are read at once */
#define UNWIND_ID_BYTES  32u

/* Where the canonical frame address comes from. */
enum unwind_cfa {
    UNWIND_CFA_NONE = 0, /* between functions, or a rule that was too complex: the walk is cut */
    UNWIND_CFA_END,      /* undefined return address: the root, cleanly */
    UNWIND_CFA_RSP,      /* rsp + cfa_offset */
    UNWIND_CFA_RBP,      /* rbp + cfa_offset */
    UNWIND_CFA_REG,      /* register cfa_register + cfa_offset (DWARF number) */
    UNWIND_CFA_DEREF,    /* *(register cfa_register + cfa_offset) + cfa_add: realigned stacks */
    UNWIND_CFA_PLT,      /* rsp + 8 + ((rip & 15) >= cfa_add ? 8 : 0) */
    UNWIND_CFA_SIGNAL,   /* signal frame: all registers from the ucontext at rsp + cfa_offset */
    UNWIND_CFA_COUNT
};

/* Why there is no rule: cfa_add of UNWIND_CFA_NONE. */
enum unwind_none {
    UNWIND_NONE_GAP = 0, /* no function is here */
    UNWIND_NONE_COMPLEX, /* one is, with a rule that no row can hold */
};

/* Where a callee-saved register of the caller is: saved at CFA + this many bytes, or one of these
 * two. */
#define UNWIND_SAME ((int16_t)0x7fff) /* unchanged */
#define UNWIND_LOST ((int16_t)0x7ffe) /* the row cannot say */

/* The callee-saved registers, in the order of unwind_rule.saved. */
enum unwind_saved {
    UNWIND_RBP,
    UNWIND_RBX,
    UNWIND_R12,
    UNWIND_R13,
    UNWIND_R14,
    UNWIND_R15,
    UNWIND_SAVED_COUNT
};

/* The return address is always at CFA - 8 and the caller's rsp is the CFA (except in a signal
 * frame). */
struct unwind_rule {
    uint8_t cfa;          /* enum unwind_cfa */
    uint8_t cfa_register; /* DWARF number of x86-64, 0..15 */
    int16_t cfa_add;
    int32_t cfa_offset;
    int16_t saved[UNWIND_SAVED_COUNT];
    /* Bit i: saved[i] counts from this frame's rbp instead of the CFA, as in functions that realign
     * their stack. Never with the CFAs RSP and RBP. */
    uint8_t from_rbp;
    uint8_t reserved[3]; /* 0 */
};

struct unwind_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint64_t base;       /* ELF vaddr that row pcs are relative to */
    uint64_t text_bytes; /* [base, base + text_bytes) is covered by the page index */
    uint32_t row_count;
    uint32_t rule_count; /* <= UNWIND_MAX_RULES */
    uint32_t page_count; /* of the index; entries: page_count + 1 */
    uint32_t fde_count;
    uint32_t complex_rows;  /* rows that became UNWIND_CFA_NONE because no rule can hold them */
    uint32_t covered_bytes; /* bytes of text under a rule other than NONE */
    uint32_t build_id_bytes;
    uint32_t reserved;
    uint8_t build_id[UNWIND_ID_BYTES];
    uint64_t hot_offset;   /* u64[rule_count]; see unwind_rule_hot */
    uint64_t rules_offset; /* struct unwind_rule[rule_count], right behind the hot ones */
    uint64_t pages_offset; /* u32[page_count + 1] */
    uint64_t rows_offset;  /* u16[row_count], rule of each row */
    uint64_t pcs_offset;   /* u8[row_count], low byte of each row's pc */
    uint64_t checksum;     /* the last field: over all other bytes of the image */
};

/* A hot rule that has not all: look at the whole one. */
#define UNWIND_HOT_WHOLE 0x20u

/* The hot rule: cfa in bits 0..7, saved[UNWIND_RBP] in 16..31, cfa_offset in 32..63. Where rbp is
 * lost it is not enough. Signal-safe. */
static inline uint64_t unwind_rule_hot(const struct unwind_rule *rule) {
    int16_t rbp = rule->saved[UNWIND_RBP];
    if (rbp == UNWIND_LOST)
        return UNWIND_HOT_WHOLE;
    return rule->cfa | (uint64_t)(uint16_t)rbp << 16 | (uint64_t)(uint32_t)rule->cfa_offset << 32;
}

/* Whether a reader may trust the image: sizes, offsets, order of rows, rule ids, rules, checksum.
 * SONDE_CORRUPT when not; also when it was written by another version. The image is 8-byte aligned.
 * Any thread; libc only, so that the guest can link it; reads every byte once or twice (about 1 ns
 * per row). */
SONDE_MUST_USE sonde_err unwind_table_check(const void *image, size_t size);
/* What header.checksum should be. size >= sizeof(struct unwind_header). */
uint64_t unwind_table_checksum(const void *image, size_t size);

#endif
