/* SPDX-License-Identifier: Apache-2.0
 *
 * The compact unwind table of one ELF file: what sonded compiles from .eh_frame (or .debug_frame) and the guest's
 * signal handler walks. One contiguous read-only image, the same in the disk cache and in the sealed memfd:
 *
 *     header | page index | rows: pc (u32 each), then rule (u16 each) | rules | end
 *
 * A row says: from this pc up to the next row's pc, this rule holds. pcs are ELF vaddrs minus header.base. The page index
 * gives for each 4 KiB of text the first row at or before its start, so that a look-up reads a few rows. Readers:
 * service/guest/signal/walk.c (must be signal-safe), service/engine's checks, tests. Everything is little-endian. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_H
#define SONDE_SERVICE_UNWIND_TABLE_H

#include <stdint.h>

#define UNWIND_MAGIC   0x31626154646e6f53ull /* "SondTab1" */
#define UNWIND_VERSION 1u
#define UNWIND_PAGE    4096u

/* Where the canonical frame address comes from. */
enum unwind_cfa {
    UNWIND_CFA_NONE = 0,   /* no row: between functions, or a rule that was too complex: the walk is cut */
    UNWIND_CFA_END,        /* undefined return address: the root, cleanly */
    UNWIND_CFA_RSP,        /* rsp + cfa_offset */
    UNWIND_CFA_RBP,        /* rbp + cfa_offset */
    UNWIND_CFA_REG,        /* register cfa_register + cfa_offset (DWARF number) */
    UNWIND_CFA_DEREF,      /* *(register cfa_register + cfa_offset) + cfa_add: realigned stacks */
    UNWIND_CFA_PLT,        /* rsp + 8 + ((rip & 15) >= cfa_add ? 8 : 0) */
    UNWIND_CFA_SIGNAL,     /* signal frame: all registers from the ucontext at rsp + cfa_offset */
};

/* Where a callee-saved register of the caller is. */
#define UNWIND_SAME ((int16_t)0x7fff) /* unchanged */

struct unwind_rule {
    uint8_t cfa;          /* enum unwind_cfa */
    uint8_t cfa_register; /* DWARF number of x86-64 */
    int16_t cfa_add;
    int32_t cfa_offset;
    /* Saved at CFA + offset (bytes), or UNWIND_SAME. The return address is always at CFA - 8. */
    int16_t rbp, rbx, r12, r13, r14, r15;
    int16_t reserved[2];
};

struct unwind_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint64_t base;       /* ELF vaddr that row pcs are relative to */
    uint64_t text_bytes; /* [base, base + text_bytes) is covered by the page index */
    uint32_t row_count;
    uint32_t rule_count;  /* <= 65535 */
    uint32_t page_count;  /* of the index; entries: page_count + 1 */
    uint32_t fde_count;
    uint32_t complex_rows; /* rows that became UNWIND_CFA_NONE because no rule can hold them */
    uint32_t build_id_bytes;
    uint8_t build_id[32];
    uint64_t pages_offset; /* u32[page_count + 1] */
    uint64_t pcs_offset;   /* u32[row_count] */
    uint64_t rows_offset;  /* u16[row_count], rule of each row */
    uint64_t rules_offset; /* struct unwind_rule[rule_count] */
    uint64_t checksum;     /* over everything after the header; see unwind_table_check */
};

#endif
