/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the stack of a blocked thread of another process, without a stop: its memory is read while
 * it sleeps, and the result is valid if the thread did not wake up meanwhile. Thread safety: a
 * worker; one thread at a time per struct. */
#ifndef SONDE_SERVICE_ENGINE_CODE_BLOCKED_WALK_H
#define SONDE_SERVICE_ENGINE_CODE_BLOCKED_WALK_H

#include "service/engine/core/engine_state.h"
#include "service/process/process_identity.h"
#include "service/unwind/remote/tracee.h"

#define BACKTRACES_STACK (1u << 20) /* of a blocked thread, read on demand */

/* One executable mapping with its unwind table. */
struct backtraces_region {
    struct mapping *mapping;
    const void *image; /* NULL = none */
    size_t bytes;
    bool is_open;
};

/* The code of a process, and the stack memory of the current thread. */
struct backtraces_code {
    struct engine *engine;
    const struct process_identity *process;
    struct generation *generation;
    struct backtraces_region *regions;
    uint32_t last;      /* the mapping found last */
    uint8_t *stack;     /* BACKTRACES_STACK bytes */
    uint64_t stack_at;  /* address of the first byte */
    size_t stack_bytes; /* number of bytes read so far */
    bool is_live;       /* more may be read from the live process */
};
SONDE_MUST_USE sonde_err backtraces_code_init(struct backtraces_code *code, struct engine *engine,
                                              const struct process_identity *process);
void backtraces_code_finish(struct backtraces_code *code);
/* Uses the memory of a blocked thread, read on demand. */
void backtraces_code_live(struct backtraces_code *code, uint64_t sp);
/* The callbacks of service/unwind/remote/remote.h. */
struct unwind_remote backtraces_code_remote(struct backtraces_code *code);
/* The mapping that contains pc, or NULL. */
struct backtraces_region *backtraces_code_at(struct backtraces_code *code, uint64_t pc);

/* --- blocked_walk.c */

struct blocked_thread {
    pid_t process, tid;
    int task_dir;  /* /proc/PID/task */
    bool may_stop; /* the caller can stop the thread if its registers are needed */
};

enum blocked_outcome {
    BLOCKED_WALKED,
    BLOCKED_MOVED,     /* it ran, or ended, during the walk */
    BLOCKED_WANTS_STOP /* the walk needs rbp, and a stop is harmless */
};

/* `before` is TRACEE_BLOCKED. The caller has set pcs and capacity of the walk. walk->guessed: a
 * frame was found by search. */
enum blocked_outcome blocked_walk(struct backtraces_code *code, const struct blocked_thread *thread,
                                  const struct tracee_snapshot *before,
                                  struct unwind_remote_walk *walk);

#endif
