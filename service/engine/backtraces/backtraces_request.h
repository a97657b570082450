/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of one request for backtraces: threads are listed (backtraces_threads.c), their stacks
 * walked and told apart (backtraces_walk.c) over the code of the process (backtraces_code.c), and
 * the frames named (backtraces_names.c). Everything hangs on one arena. Thread safety: one thread
 * at a time; walks only on the tracer, the thread that backtraces.c makes for them. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_REQUEST_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_BACKTRACES_REQUEST_H

#include "api/hash_index.h"
#include "service/engine/backtraces/backtraces.h"
#include "service/engine/target.h"
#include "service/unwind/remote/tracee.h"

#define BACKTRACES_STACK (1u << 20)   /* of a blocked thread, read as the walk wants it */
#define BACKTRACES_COPY  (128u << 10) /* of a stopped one, at once */
/* In place of a pc, frames that are no code: an enum stack_note in the low bits, or how many
 * frames were left out. */
#define BACKTRACES_NOTE (1ull << 62)
#define BACKTRACES_GAP  (1ull << 61)

/* One executable mapping with its table. */
struct backtraces_place {
    struct mapping *mapping;
    const void *image; /* NULL = none */
    size_t bytes;
    bool is_open;
};

/* The code of a process and the memory of the thread at hand. */
struct backtraces_code {
    struct engine *engine;
    pid_t pid;
    struct generation *generation;
    struct backtraces_place *places;
    uint32_t last;      /* the place found last */
    uint8_t *stack;     /* BACKTRACES_STACK bytes */
    uint64_t stack_at;  /* address of the first */
    size_t stack_bytes; /* that are there */
    bool is_live;       /* more may be read as it is now */
};
SONDE_MUST_USE sonde_err backtraces_code_init(struct backtraces_code *code, struct engine *engine,
                                              pid_t pid);
void backtraces_code_finish(struct backtraces_code *code);
/* The memory of a thread that is blocked: read when wanted. */
void backtraces_code_live(struct backtraces_code *code, uint64_t sp);
/* What unwind/remote.h wants. */
struct unwind_remote backtraces_code_remote(struct backtraces_code *code);
/* The mapping that holds pc; NULL. */
struct backtraces_place *backtraces_code_at(struct backtraces_code *code, uint64_t pc);

/* A stack, told apart from others. */
struct backtraces_stack {
    const uint64_t *pcs; /* with notes */
    uint32_t count, threads;
};

struct backtraces {
    struct engine *engine;
    struct engine_backtraces_spec spec;
    pid_t pid;
    bool is_ticking; /* a capture runs: threads that sleep are not woken */
    int task_dir;
    struct sonde_arena arena;
    struct backtraces_code code;
    struct engine_thread *threads;
    uint32_t thread_count, left_out; /* over max_threads */
    struct backtraces_stack *stacks;
    uint32_t stack_count, stack_capacity;
    struct hash_index stack_index; /* of stacks */
    uint64_t *scratch;             /* UNWIND_REMOTE_FRAMES pcs */
    uint32_t refused, guessed;
    struct tracer tracer;
    pid_t rival; /* somebody else who traces */
};

/* Opens task_dir and lists the threads. */
SONDE_MUST_USE sonde_err backtraces_list(struct backtraces *all, struct sonde_diag *diag);
/* Name, state, times of one. False: it has ended. */
bool backtraces_read(struct backtraces *all, struct engine_thread *thread);
enum backtraces_outcome {
    BACKTRACES_WALKED, /* or the thread says why not */
    BACKTRACES_GONE,
    BACKTRACES_RUNNING, /* it would have to be stopped */
};
/* Its stack. */
enum backtraces_outcome backtraces_walk(struct backtraces *all, struct engine_thread *thread,
                                        bool may_stop);
/* The answer, in the arena. */
SONDE_MUST_USE sonde_err backtraces_name(struct backtraces *all, struct engine_backtraces *answer);

#endif
