/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of one check: check_samples.c takes samples and walks them, check_other.c has them
 * walked by libunwind, check_answer.c names what differs, check_save.c chooses a stack to save.
 * Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_RUN_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_RUN_H

#include "api/hash_index.h"
#include "service/engine/code/process_code.h"
#include "service/engine/unwind_check/check_format.h"
#include "service/engine/unwind_check/unwind_check.h"
#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table.h"

#define CHECK_MAX_BYTES (192u << 20) /* of copies of stacks */

/* A distinct stack. */
struct check_sampled {
    struct check_stack stack; /* offsets are into check_run.bytes */
    enum unwind_copy_end end;
};

struct check_run {
    struct engine *engine;
    struct engine_unwind_check_spec spec;
    struct process_identity process;
    struct process_code code;
    struct unwind_walker *walker;
    struct check_sampled *stacks; /* spec.max_stacks */
    uint32_t count;
    struct hash_index index;
    struct sonde_buf bytes;       /* pcs and copies of stacks */
    struct check_result *results; /* one per stack */
    uint64_t samples, lost;
    uint32_t left_out; /* distinct stacks that did not fit */
    uint32_t others;   /* samples of 32-bit code and kernel threads */
    bool is_out_of_memory;
    struct sonde_arena arena;
};

/* Takes samples for spec.duration_ms, and keeps one of each stack. */
SONDE_MUST_USE sonde_err check_take_samples(struct check_run *run, struct sonde_diag *diag);
/* Fills in results. */
SONDE_MUST_USE sonde_err check_walk_other(struct check_run *run, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err check_answer(struct check_run *run, struct engine_unwind_check *answer);
/* Sets answer->saved, which borrows from the run. */
SONDE_MUST_USE sonde_err check_save_stack(struct check_run *run,
                                          struct engine_unwind_check *answer);

#endif
