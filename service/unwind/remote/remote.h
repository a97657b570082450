/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the stack of a thread of another process, over compact tables (table.h) and over words that
 * are read from that process or from a copy of its stack. Of a thread that was not stopped only the
 * pc and the stack pointer are known. A register becomes known where a frame has saved it. If a
 * rule needs a register that is not known, the walk ends and says which.
 *
 * That happens in frame-pointer code above a thread that is blocked in a system call, if no frame
 * below has saved the frame pointer. unwind_remote_search then searches the stack for the frame:
 * two words, a saved frame pointer and a return address, where the return address follows a call
 * (of this very function, if the call names one), and from where a walk reaches the thread's root.
 *
 * Tables are trusted (unwind_table_check); registers and words are not. Thread safety: one thread
 * per walk. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_REMOTE_H
#define SONDE_SERVICE_UNWIND_REMOTE_REMOTE_H

#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <stdint.h>

#define UNWIND_REMOTE_FRAMES (1u << 17)   /* frames of one walk at most */
#define UNWIND_REMOTE_EXACT  (1ull << 63) /* marks a pc of interrupted code; see pcs */

/* The code at a pc. */
struct unwind_code {
    const void *image; /* its table; NULL = none: its frame is left by frame pointer */
    uint64_t bias;     /* runtime address - ELF vaddr */
};

struct unwind_remote {
    void *context;
    /* Finds the code at a pc; false if there is none. */
    bool (*find)(void *context, uint64_t pc, struct unwind_code *code);
    /* Reads the 8 bytes at an address; false if it cannot. */
    bool (*read)(void *context, uint64_t address, uint64_t *word);
};

enum unwind_remote_end {
    UNWIND_REMOTE_ROOT = 0,
    UNWIND_REMOTE_DEPTH,     /* pcs is full */
    UNWIND_REMOTE_NO_CODE,   /* a pc that is not in code */
    UNWIND_REMOTE_NO_TABLE,  /* code without unwind information, and no plausible frame pointer */
    UNWIND_REMOTE_RULE,      /* a rule that no row can hold */
    UNWIND_REMOTE_REGISTER,  /* a rule that needs the register `wanted` */
    UNWIND_REMOTE_BAD_STACK, /* a word that cannot be read, or an implausible address */
};

struct unwind_remote_walk {
    /* Leaf first. pcs[0] is the pc of the thread. The others are return addresses, except those
     * marked UNWIND_REMOTE_EXACT: code that a signal interrupted. */
    uint64_t *pcs;
    uint32_t capacity, count;
    uint32_t guessed; /* frames found by search */
    uint32_t tries;   /* candidates that the search followed */
    enum unwind_remote_end end;
    uint32_t wanted;
    struct unwind_registers at_end; /* the registers of the last frame in pcs */
};

/* Walks from registers, of which the pc and the stack pointer must be known. The caller has set pcs
 * and capacity. */
void unwind_remote_walk(const struct unwind_remote *remote,
                        const struct unwind_registers *registers, struct unwind_remote_walk *walk);
/* Continues a walk that ended because the frame pointer is unknown. True if it reached the root;
 * otherwise the walk is unchanged. */
bool unwind_remote_search(const struct unwind_remote *remote, struct unwind_remote_walk *walk);

#endif
