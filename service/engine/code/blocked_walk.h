/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the stack of a blocked thread of another process, without a stop: its memory is read while
 * it sleeps, and the result is valid if the thread did not wake up meanwhile. Thread safety: a
 * worker; one thread at a time per struct. */
#ifndef SONDE_SERVICE_ENGINE_CODE_BLOCKED_WALK_H
#define SONDE_SERVICE_ENGINE_CODE_BLOCKED_WALK_H

#include "service/engine/code/process_code.h"
#include "service/unwind/remote/tracee.h"

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
enum blocked_outcome blocked_walk(struct process_code *code, const struct blocked_thread *thread,
                                  const struct tracee_snapshot *before,
                                  struct unwind_remote_walk *walk);

#endif
