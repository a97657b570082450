/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of a thread of another process, walked over compact tables (table.h) and words that are
 * read from afar or from a copy. It is slower than the guest's walker and knows less: a thread that
 * was not stopped shows its rip and rsp only. Registers are known or not, a saved one becomes known
 * on the way, and a rule that wants one that is not known ends the walk, saying which.
 *
 * Frame-pointer code above a thread that blocks in a system call is such a case: nobody below it
 * may have saved its rbp. unwind_remote_search then looks for the frame in the stack: a pair of
 * words, saved rbp and return address, of which the second follows a call, to this very function if
 * the call says whom it calls, and from which the walk goes on to the thread's root.
 *
 * Tables are trusted (unwind_table_check), words are not. Thread safety: one thread per walk. */
#ifndef SONDE_SERVICE_UNWIND_REMOTE_REMOTE_H
#define SONDE_SERVICE_UNWIND_REMOTE_REMOTE_H

#include "service/unwind/step/registers.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#define UNWIND_REMOTE_FRAMES (1u << 17)   /* a walk ends here, whatever the stack says */
#define UNWIND_REMOTE_EXACT  (1ull << 63) /* of a pc: below a signal frame, not a return address */

void unwind_registers_take(struct unwind_registers *registers,
                           const struct user_regs_struct *from); /* all known */

/* What is at a pc. */
struct unwind_code {
    const void *image; /* its table; NULL = none: left by frame pointer */
    uint64_t bias;     /* runtime address - ELF vaddr */
};

struct unwind_remote {
    void *context;
    /* False: no code is there. */
    bool (*find)(void *context, uint64_t pc, struct unwind_code *code);
    /* The 8 bytes at an address; false: they cannot be had. */
    bool (*read)(void *context, uint64_t address, uint64_t *word);
};

enum unwind_remote_end {
    UNWIND_REMOTE_ROOT = 0,
    UNWIND_REMOTE_DEPTH,     /* the pcs are full */
    UNWIND_REMOTE_NO_CODE,   /* a pc where no code is */
    UNWIND_REMOTE_NO_TABLE,  /* code without unwind information, and no usable frame pointer */
    UNWIND_REMOTE_RULE,      /* a rule that no row can hold */
    UNWIND_REMOTE_REGISTER,  /* a rule that wants the register `wanted` */
    UNWIND_REMOTE_BAD_STACK, /* a word that cannot be read, or no stack goes like that */
};

struct unwind_remote_walk {
    uint64_t *pcs; /* leaf first; [0] is the interrupted pc, the others return addresses */
    uint32_t capacity, count;
    uint32_t guessed; /* frames that were searched for */
    uint32_t tries;   /* candidates that were looked at for it */
    enum unwind_remote_end end;
    uint32_t wanted;
    struct unwind_registers at_end; /* of the last frame in pcs */
};

/* Walks from registers, of which rip and rsp must be known; pcs and capacity are the caller's. */
void unwind_remote_walk(const struct unwind_remote *remote,
                        const struct unwind_registers *registers, struct unwind_remote_walk *walk);
/* Goes on with a walk that ended for want of rbp. True when it reached the root; otherwise the walk
 * is as it was. */
bool unwind_remote_search(const struct unwind_remote *remote, struct unwind_remote_walk *walk);

#endif
