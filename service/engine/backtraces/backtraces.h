/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of all threads of a target, now. Threads that are blocked are not stopped; those that
 * run are, each for the copy of its registers and the top of its stack (service/unwind/remote).
 * As in engine.h: any thread may ask, nobody waits, the answer is one event on a worker. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_H

#include "service/engine/engine.h"

#define ENGINE_BACKTRACES_DEPTH       127u /* when nothing is said */
#define ENGINE_BACKTRACES_MAX_DEPTH   4096u
#define ENGINE_BACKTRACES_THREADS     10000u
#define ENGINE_BACKTRACES_MAX_THREADS 100000u

struct engine_backtraces_spec {
    struct engine_selector target;
    uint32_t max_depth;   /* 0 = ENGINE_BACKTRACES_DEPTH; deeper stacks lose their middle */
    uint32_t max_threads; /* 0 = ENGINE_BACKTRACES_THREADS */
    pid_t tid;            /* only this thread; 0 = all */
};

struct engine_thread {
    pid_t tid;
    const char *name;         /* any bytes but NUL */
    char state;               /* 'R', 'S', 'D', 'T' ... as /proc says; 0 = unknown */
    const char *wait_channel; /* "" = none, or not shown to us */
    uint64_t cpu_ns, user_ns, system_ns;
    uint32_t stack;    /* index + 1 in stacks; 0 = none */
    uint64_t stop_ns;  /* 0 = it was not stopped */
    const char *error; /* why there is no stack, or what is to be known about it; "" */
};

/* One function: inlined ones are frames of their own, before the one they are inlined into. */
struct engine_thread_frame {
    const char *name; /* "" = unknown */
    const char *file, *module;
    uint32_t line;
    uint64_t address; /* in the process; of a caller: behind its call */
    enum sonde_frame_kind kind;
    bool is_inlined;
};

struct engine_thread_stack {
    const struct engine_thread_frame *frames; /* leaf first */
    uint32_t count;
    uint32_t threads; /* that have it */
};

struct engine_backtraces {
    const char *target_name;
    pid_t pid;
    const struct engine_thread *threads; /* by tid */
    uint32_t thread_count;
    const struct engine_thread_stack *stacks; /* in the order of their first thread */
    uint32_t stack_count;
    int64_t unix_ns;
    uint64_t longest_stop_ns, total_stop_ns;
    uint32_t not_walked; /* threads without a stack, those over max_threads included */
    const char *note;    /* what keeps the answer from being whole, and what to do; "" */
};

/* backtraces is NULL when err is not SONDE_OK, and valid during the call. */
typedef void engine_on_backtraces(void *context, sonde_err err, const struct sonde_diag *diag,
                                  const struct engine_backtraces *backtraces);
/* SONDE_INVALID_ARGUMENT, TARGET_*, SONDE_UNAVAILABLE at once. SONDE_TARGET_GONE, SONDE_NOT_FOUND
 * (no such thread) by the event. */
SONDE_MUST_USE sonde_err engine_backtraces(struct engine *engine,
                                           const struct engine_backtraces_spec *spec,
                                           engine_on_backtraces *on_answer, void *context,
                                           struct sonde_diag *diag);

#endif
