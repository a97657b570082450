/* SPDX-License-Identifier: Apache-2.0
 *
 * The compact unwind table of one ELF file. sonded compiles it from .eh_frame or .debug_frame, and
 * the guest's signal handler walks with it. It is one contiguous read-only image, the same in the
 * disk cache and in the sealed memfd:
 *
 *     header | hot rules, u64 each | rules | page index, u32 each |
 *     the rows' rules, u16 each | the rows' pcs, u8 each | slack
 *
 * A row applies from its pc up to the next row's pc. Its pc is an ELF vaddr minus header.base. The
 * text is divided into pages of 256 bytes, and the index has each page's first row. So only the low
 * byte of a row's pc is stored. To look a pc up, count the bytes of its page that are <= its low
 * byte: the row is index[page] + count - 1. (If count is 0, that is the last row of an earlier
 * page, which still applies.) A row takes three bytes, and half a byte of index; libLLVM's 1.3
 * million rows take 5 MB.
 *
 * A hot rule is the part of a rule that nearly every frame needs, packed into 8 bytes. Readers are
 * service/guest/signal/walk.c (signal-safe; trusts an image that unwind_table_check has passed),
 * table_lookup.h, and tests. All numbers are little-endian. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>

#define UNWIND_MAGIC     0x31626154646e6f53ull /* "SondTab1" */
#define UNWIND_VERSION   7u
#define UNWIND_PAGE      256u
#define UNWIND_MAX_TEXT  (1u << 31) /* bytes of address space one table may span */
#define UNWIND_MAX_RULES 65535u
#define UNWIND_SLACK     16u /* readable bytes after the rows: readers load 8 at once */
#define UNWIND_ID_BYTES  32u

/* Where the canonical frame address comes from. */
enum unwind_cfa {
    UNWIND_CFA_NONE = 0, /* no rule; see enum unwind_none */
    UNWIND_CFA_END,      /* the return address is undefined: the root of the stack */
    UNWIND_CFA_RSP,      /* rsp + cfa_offset; on arm64 sp */
    UNWIND_CFA_RBP,      /* rbp + cfa_offset; on arm64 x29 */
    UNWIND_CFA_REG,      /* register cfa_register + cfa_offset (DWARF number) */
    UNWIND_CFA_DEREF,    /* *(register cfa_register + cfa_offset) + cfa_add: realigned stacks */
    UNWIND_CFA_PLT,      /* rsp + 8 + ((rip & 15) >= cfa_add ? 8 : 0) */
    UNWIND_CFA_SIGNAL,   /* signal frame: all registers from the ucontext at rsp + cfa_offset */
    UNWIND_CFA_RETURN,   /* rsp + cfa_offset; the return address is in register cfa_register */
    UNWIND_CFA_COUNT
};

/* Why there is no rule: cfa_add of a rule UNWIND_CFA_NONE. */
enum unwind_none {
    UNWIND_NONE_GAP = 0,    /* no function is known here; it may have a frame pointer */
    UNWIND_NONE_COMPLEX,    /* the function's rule is too complex for a row */
    UNWIND_NONE_NO_POINTER, /* no function is known here, and none has a frame pointer */
    UNWIND_NONE_PADDING     /* nothing, between two functions */
};

/* Where a callee-saved register of the caller is: at CFA + this many bytes, or one of these two. */
#define UNWIND_SAME ((int16_t)0x7fff) /* unchanged */
#define UNWIND_LOST ((int16_t)0x7ffe) /* unknown */

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

/* The callee-saved registers x19 to x28 of arm64: where they are, in units of 8 bytes from the
 * place of x29; from that of x30 if x29 is not saved; else from the CFA. Or one of these two. */
#define UNWIND_NEAR_COUNT 10
#define UNWIND_NEAR_SAME  ((int8_t)0)
#define UNWIND_NEAR_LOST  INT8_MIN

/* The caller's stack pointer is the CFA, except in a signal frame. x86-64: the return address is at
 * CFA - 8, except in a signal frame and for UNWIND_CFA_RETURN. arm64: it is the caller's x30, or in
 * register cfa_register for UNWIND_CFA_RETURN. If x30 is unchanged, only an interrupted frame has
 * it, and the walk of any other ends. */
struct unwind_rule {
    uint8_t cfa;          /* enum unwind_cfa */
    uint8_t cfa_register; /* DWARF number: of x86-64 0 to 15, of arm64 0 to 31 */
    int16_t cfa_add;
    int32_t cfa_offset;
    union {
        struct { /* x86-64 */
            int16_t saved[UNWIND_SAVED_COUNT];
            /* Bit i: saved[i] is relative to this frame's rbp instead of the CFA, as in functions
             * that realign their stack. Never set with the CFAs RSP and RBP. */
            uint8_t from_rbp;
            uint8_t reserved[3]; /* 0 */
        };
        struct {
            /* Where x29 and x30 are: CFA + this many units of 8 bytes, or UNWIND_SAME or _LOST. */
            int16_t frame, link;
            int8_t near[UNWIND_NEAR_COUNT]; /* x19 to x28 */
            uint8_t reserved[2];            /* 0 */
        } arm64;
    };
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
    uint32_t complex_rows;  /* rows with UNWIND_NONE_COMPLEX */
    uint32_t covered_bytes; /* bytes of text that are not UNWIND_NONE_GAP */
    uint32_t build_id_bytes;
    uint32_t machine; /* EM_* of the file; 0 = EM_X86_64. Readers refuse one of another machine. */
    uint8_t build_id[UNWIND_ID_BYTES];
    uint64_t hot_offset;   /* u64[rule_count]; see unwind_rule_hot */
    uint64_t rules_offset; /* struct unwind_rule[rule_count], directly after the hot rules */
    uint64_t pages_offset; /* u32[page_count + 1] */
    uint64_t rows_offset;  /* u16[row_count]: the number of each row's rule */
    uint64_t pcs_offset;   /* u8[row_count]: the low byte of each row's pc */
    uint64_t checksum;     /* the last field: over all other bytes of the image */
};

/* Set in a hot rule that is incomplete: read the whole rule. */
#define UNWIND_HOT_WHOLE 0x20u

/* Packs a hot rule of x86-64: cfa in bits 0 to 7, saved[UNWIND_RBP] in 16 to 31, cfa_offset in 32
 * to 63. A rule that loses rbp does not fit. service/machine/rules.h packs those of any machine: on
 * arm64 the place of x29 is in bits 16 to 31, and a rule does not fit unless x30 is behind it.
 * Signal-safe. */
static inline uint64_t unwind_rule_hot(const struct unwind_rule *rule) {
    int16_t rbp = rule->saved[UNWIND_RBP];
    if (rbp == UNWIND_LOST)
        return UNWIND_HOT_WHOLE;
    return rule->cfa | (uint64_t)(uint16_t)rbp << 16 | (uint64_t)(uint32_t)rule->cfa_offset << 32;
}

/* Checks what readers rely on: machine, sizes, offsets, order of rows, rule numbers, rules,
 * checksum. SONDE_CORRUPT if something is wrong, another version wrote the image, or it is for
 * another machine than this program's. The image must be aligned to 8 bytes. Any thread; needs only
 * libc, so that the guest can link it; takes about 1 ns a row. */
SONDE_MUST_USE sonde_err unwind_table_check(const void *image, size_t size);
/* The same for a table of that machine (EM_*), with which this program may not walk its own. */
SONDE_MUST_USE sonde_err unwind_table_check_for(uint32_t machine, const void *image, size_t size);
/* The correct header.checksum. size >= sizeof(struct unwind_header). */
uint64_t unwind_table_checksum(const void *image, size_t size);

#endif
