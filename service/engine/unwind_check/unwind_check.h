/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our stack walks of a live process with libunwind's. Samples of the process are taken
 * from outside; the same registers and copies of stacks are walked with our tables here and by
 * libunwind in a confined process. As in engine.h: any thread may call, nothing blocks, and the
 * answer is one event on a worker. One check runs at a time, further ones wait. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_UNWIND_CHECK_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_UNWIND_CHECK_H

#include "service/engine/engine.h"

#define ENGINE_CHECK_MAX_MS          60000u
#define ENGINE_CHECK_MAX_HZ          10000u
#define ENGINE_CHECK_MAX_STACKS      10000u
#define ENGINE_CHECK_MAX_DIFFERENCES 20u
#define ENGINE_CHECK_MAX_WAITING     8u /* checks, with the one that runs */

struct engine_unwind_check_spec {
    struct engine_selector target;
    uint32_t duration_ms;  /* 1 to ENGINE_CHECK_MAX_MS */
    uint32_t frequency_hz; /* 1 to ENGINE_CHECK_MAX_HZ */
    uint32_t max_stacks;   /* 1 to ENGINE_CHECK_MAX_STACKS */
    bool save_stack;       /* set engine_unwind_check.saved */
};

/* Where two walks part: the callers of the frame at pc are different. */
struct engine_unwind_difference {
    uint64_t stacks;               /* with a difference here */
    uint64_t pc;                   /* of the first such stack, like all that follows */
    const char *function, *module; /* "" = unknown */
    uint64_t module_offset;
    uint64_t ours, other; /* 0 = the walk ended */
    const char *our_end;  /* why our walk ended there; "" = it did not */
    const char *rule;     /* our row for pc */
    const char *row;      /* what libunwind did */
};

/* Code that a saved stack's walk came through. */
struct engine_saved_module {
    uint64_t start, end, bias;
    const char *path, *build_id;
    const void *table; /* its unwind table; NULL = none, or too large to save */
    size_t table_bytes;
};

/* A stack with all that its walk needs. It is memory of the process, which may hold secrets. */
struct engine_saved_stack {
    const char *end; /* why the walk ended */
    const uint64_t *registers, *pcs;
    uint32_t register_count, count;
    const uint8_t *stack;
    size_t stack_bytes;
    const struct engine_saved_module *modules; /* by start */
    uint32_t module_count;
};

struct engine_unwind_check {
    const char *target_name;
    pid_t pid;
    uint64_t samples;        /* taken */
    uint64_t stacks, frames; /* of distinct stacks, which were compared */
    uint64_t equal_stacks, equal_frames;
    uint64_t reached_root, other_reached_root;          /* stacks */
    const struct engine_unwind_difference *differences; /* most stacks first */
    uint32_t difference_count;
    const char *note; /* why the check is incomplete; "" = it is complete */
    /* If asked for: the first stack whose walk ended early, or else the first that differs; NULL =
     * there is none. */
    const struct engine_saved_stack *saved;
};

/* check is valid during the call, and NULL unless err is SONDE_OK. */
typedef void engine_on_unwind_check(void *context, sonde_err err, const struct sonde_diag *diag,
                                    const struct engine_unwind_check *check);
/* Returns SONDE_INVALID_ARGUMENT, TARGET_*, SONDE_UNAVAILABLE or SONDE_SESSION_BUSY at once. The
 * event may report SONDE_PERMISSION_DENIED or SONDE_NOT_AVAILABLE (perf, the process's maps). */
SONDE_MUST_USE sonde_err engine_check_unwind(struct engine *engine,
                                             const struct engine_unwind_check_spec *spec,
                                             engine_on_unwind_check *on_answer, void *context,
                                             struct sonde_diag *diag);

#endif
