/* SPDX-License-Identifier: Apache-2.0
 *
 * One backtraces request: thread_list.c lists the threads, thread_walk.c walks their stacks and
 * stores equal ones once, process_code.c provides the code and memory of the process, frame_names.c
 * names the frames, lock_waits.c finds what blocked threads wait for, and lock_names.c names that.
 * One arena owns everything. Thread safety: one thread at a time; walks run only on the tracer, a
 * thread that backtraces.c creates for them. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_REQUEST_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_REQUEST_H

#include "api/hash_index.h"
#include "service/engine/backtraces/backtraces.h"
#include "service/engine/code/blocked_walk.h"
#include "service/engine/core/target.h"

#define BACKTRACES_COPY (128u << 10) /* of a stopped thread, read at once */
/* Marks an entry that is not a pc: the low bits hold an enum stack_note, or the number of frames
 * left out. */
#define BACKTRACES_NOTE (1ull << 62)
#define BACKTRACES_GAP  (1ull << 61)

/* A distinct stack. */
struct backtraces_stack {
    const uint64_t *pcs; /* pcs and notes */
    uint32_t count, threads;
};

struct backtraces {
    struct engine *engine;
    struct engine_backtraces_spec spec;
    const struct process_identity *process; /* of the target */
    pid_t pid;
    bool is_ticking; /* a capture is running: do not wake sleeping threads */
    int task_dir;
    struct sonde_arena arena;
    struct process_code code;
    struct engine_thread *threads;
    uint32_t thread_count, left_out; /* threads past max_threads */
    struct backtraces_stack *stacks;
    uint32_t stack_count, stack_capacity;
    struct hash_index stack_index; /* index of stacks */
    uint64_t *scratch;             /* UNWIND_REMOTE_FRAMES pcs */
    uint32_t refused, guessed;
    struct tracer tracer;
    pid_t other_tracer; /* another process that traces the target */
};

/* Opens task_dir and lists the threads. All that is read through task_dir is of this process, even
 * if its pid becomes another's. SONDE_TARGET_GONE: it is not the process that connected. */
SONDE_MUST_USE sonde_err backtraces_list(struct backtraces *all, struct sonde_diag *diag);
/* Before a walk, and after it: SONDE_TARGET_GONE if this is not the process that connected. */
SONDE_MUST_USE sonde_err backtraces_check(const struct backtraces *all, struct sonde_diag *diag);
/* Reads one thread's name, state and times. False if it has ended. */
bool backtraces_read(struct backtraces *all, struct engine_thread *thread);
enum backtraces_outcome {
    BACKTRACES_WALKED, /* otherwise the thread's note says why not */
    BACKTRACES_GONE,
    BACKTRACES_RUNNING, /* the thread would have to be stopped */
};
/* Walks the thread's stack. */
enum backtraces_outcome backtraces_walk(struct backtraces *all, struct engine_thread *thread,
                                        bool may_stop);
/* Keeps what a walked thread waits for, if it is blocked in futex. was_stopped: after the
 * snapshot. */
void backtraces_note_wait(struct backtraces *all, struct engine_thread *thread,
                          const struct tracee_snapshot *snapshot, bool was_stopped);
/* Builds the answer in the arena. */
SONDE_MUST_USE sonde_err backtraces_name(struct backtraces *all, struct engine_backtraces *answer);
/* The variable that a lock is in. */
struct lock_variable {
    uint64_t address; /* of the lock */
    uint32_t stack;   /* of a thread that waits for it: its number, not 0 */
    const char *name; /* "" = none */
    uint64_t offset;
};
SONDE_MUST_USE sonde_err backtraces_name_variables(struct backtraces *all,
                                                   struct lock_variable *variables, uint32_t count);
/* After both: finds the locks that threads wait for, their owners, and deadlocks. */
SONDE_MUST_USE sonde_err backtraces_find_locks(struct backtraces *all,
                                               struct engine_backtraces *answer);

#endif
