/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of all threads of a target, now. Blocked threads are not stopped. A running thread is
 * stopped while its registers and the top of its stack are copied (service/unwind/remote). As in
 * engine.h: any thread may call, nothing blocks, and the answer is one event on a worker. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_H

#include "api/profile/select/wait_kind.h"
#include "service/engine/engine.h"

#define ENGINE_BACKTRACES_DEPTH       127u /* default depth */
#define ENGINE_BACKTRACES_MAX_DEPTH   4096u
#define ENGINE_BACKTRACES_THREADS     10000u
#define ENGINE_BACKTRACES_MAX_THREADS 100000u

struct engine_backtraces_spec {
    struct engine_selector target;
    uint32_t max_depth;   /* 0 = ENGINE_BACKTRACES_DEPTH; the middle of deeper stacks is left out */
    uint32_t max_threads; /* 0 = ENGINE_BACKTRACES_THREADS */
    pid_t tid;            /* only this thread; 0 = all */
};

/* What a thread that is blocked in futex waits for. The process can forge all of it. */
struct engine_lock_wait {
    uint64_t address; /* of the lock in the process, or of the futex */
    enum sonde_wait_kind kind;
    const char *name;        /* of the variable that it is in; "" = none */
    uint64_t name_offset;    /* from the start of that variable */
    const char *function;    /* the function that waits; "" = unknown */
    pid_t owner;             /* tid of the thread that holds it; 0 = unknown */
    const char *owner_name;  /* "" = unknown */
    bool is_owner_elsewhere; /* the owner is a thread of another process */
    uint32_t readers;        /* how many threads hold a read-write lock for reading */
};

struct engine_thread {
    pid_t tid;
    const char *name;         /* any bytes except NUL */
    char state;               /* 'R', 'S', 'D', 'T' ... as in /proc; 0 = unknown */
    const char *wait_channel; /* "" = none, or we may not see it */
    uint64_t cpu_ns, user_ns, system_ns;
    uint32_t stack;    /* index + 1 in stacks; 0 = none */
    uint64_t stop_ns;  /* 0 = not stopped */
    const char *error; /* why there is no stack, or a remark about it; "" = nothing */
    struct engine_lock_wait *lock_wait; /* NULL = it is not blocked in futex, or has no stack */
};

/* Threads of which each waits for a lock that the next holds, and the last for one of the first. */
struct engine_deadlock {
    const uint32_t *threads; /* indexes */
    uint32_t count;          /* 1: it waits for a lock that it holds itself */
};

/* One function. Inlined functions have frames of their own, before the function they are inlined
 * into. */
struct engine_thread_frame {
    const char *name; /* "" = unknown */
    const char *file, *module;
    uint32_t line;
    uint64_t address; /* address in the process; for callers, the return address */
    enum sonde_frame_kind kind;
    bool is_inlined;
};

struct engine_thread_stack {
    const struct engine_thread_frame *frames; /* leaf first */
    uint32_t count;
    uint32_t threads; /* number of threads with this stack */
};

struct engine_backtraces {
    const char *target_name;
    pid_t pid;
    const struct engine_thread *threads; /* by tid */
    uint32_t thread_count;
    const struct engine_thread_stack *stacks; /* ordered by their first thread */
    uint32_t stack_count;
    const struct engine_deadlock *deadlocks;
    uint32_t deadlock_count;
    int64_t unix_ns;
    uint64_t longest_stop_ns, total_stop_ns;
    uint32_t not_walked; /* threads without a stack, including those past max_threads */
    const char *note;    /* why the answer is incomplete, and what to do about it; "" = complete */
};

/* backtraces is valid during the call, and NULL unless err is SONDE_OK. */
typedef void engine_on_backtraces(void *context, sonde_err err, const struct sonde_diag *diag,
                                  const struct engine_backtraces *backtraces);
/* Returns SONDE_INVALID_ARGUMENT, TARGET_* or SONDE_UNAVAILABLE at once. The event may report
 * SONDE_TARGET_GONE or SONDE_NOT_FOUND (no such thread). */
SONDE_MUST_USE sonde_err engine_backtraces(struct engine *engine,
                                           const struct engine_backtraces_spec *spec,
                                           engine_on_backtraces *on_answer, void *context,
                                           struct sonde_diag *diag);

#endif
