/* SPDX-License-Identifier: Apache-2.0
 *
 * One request: finds the process, and runs the check on a thread that does nothing else. */
#include "service/engine/unwind_check/unwind_check.h"

#include "service/engine/unwind_check/check_run.h"

#include <stdlib.h>
#include <string.h>

struct check_job {
    struct job job;
    struct message begin;
    struct engine_unwind_check_spec spec;
    struct engine_target target;
    struct process_identity process;
    engine_on_unwind_check *on_answer;
    void *context;
};

static void run_finish(struct check_run *run) {
    process_code_finish(&run->code);
    unwind_walker_destroy(run->walker);
    hash_index_finish(&run->index);
    sonde_buf_finish(&run->bytes);
    sonde_arena_finish(&run->arena);
    free(run->stacks);
    free(run->results);
}

static sonde_err run_check(struct check_run *run, struct engine_unwind_check *answer,
                           struct sonde_diag *diag) {
    sonde_err err = process_code_init(&run->code, run->engine, &run->process);
    if (err == SONDE_NOT_AVAILABLE)
        return sonde_fail(diag, err,
                          "the memory map of process %d cannot be read: run sonded as root or as "
                          "the process's own user",
                          (int)run->process.pid);
    if (!err)
        err = check_take_samples(run, diag);
    if (!err && atomic_load(&run->engine->is_ending))
        err = sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    if (!err)
        err = check_walk_other(run, diag);
    if (!err)
        err = check_answer(run, answer);
    return err || !run->spec.save_stack ? err : check_save_stack(run, answer);
}

static void perform(struct job *base) {
    struct check_job *job = container_of(base, struct check_job, job);
    struct sonde_diag diag = {0};
    struct check_run run = {.engine = base->engine, .spec = job->spec, .process = job->process};
    struct engine_unwind_check answer = {.target_name = job->target.name, .pid = job->target.pid};
    sonde_err err = run_check(&run, &answer, &diag);
    job->on_answer(job->context, err, &diag, err ? NULL : &answer);
    run_finish(&run);
}

static void complete(struct engine *engine, struct job *base) {
    struct check_job *job = container_of(base, struct check_job, job);
    atomic_fetch_sub(&engine->checks_waiting, 1);
    process_identity_finish(&job->process);
    free(job);
}

static void on_begin(struct engine *engine, struct message *message) {
    struct check_job *job = container_of(message, struct check_job, begin);
    engine_start_job(engine, engine->checkers, &job->job);
}

static sonde_err check_spec(const struct engine_unwind_check_spec *spec, struct sonde_diag *diag) {
    bool is_sane = spec->duration_ms && spec->duration_ms <= ENGINE_CHECK_MAX_MS &&
                   spec->frequency_hz && spec->frequency_hz <= ENGINE_CHECK_MAX_HZ &&
                   spec->max_stacks && spec->max_stacks <= ENGINE_CHECK_MAX_STACKS;
    if (!is_sane)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the duration, frequency or number of stacks is out of bounds");
    if (spec->target.all)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "choose one process by its pid or name");
    return SONDE_OK;
}

/* The process, and a place among those that wait. */
static sonde_err enlist(struct engine *engine, struct check_job *job,
                        const struct engine_selector *selector, struct sonde_diag *diag) {
    sonde_err err = engine_find(engine, selector, &job->target, diag);
    if (err)
        return err;
    if (!process_identity_of_pid(job->target.pid, &job->process))
        return sonde_fail(diag, SONDE_TARGET_GONE, "the process %d has ended",
                          (int)job->target.pid);
    if (atomic_fetch_add(&engine->checks_waiting, 1) < ENGINE_CHECK_MAX_WAITING)
        return SONDE_OK;
    atomic_fetch_sub(&engine->checks_waiting, 1);
    process_identity_finish(&job->process);
    return sonde_fail(diag, SONDE_SESSION_BUSY, "%u unwind checks are waiting: try again later",
                      ENGINE_CHECK_MAX_WAITING);
}

sonde_err engine_check_unwind(struct engine *engine, const struct engine_unwind_check_spec *spec,
                              engine_on_unwind_check *on_answer, void *context,
                              struct sonde_diag *diag) {
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct check_job *job = calloc(1, sizeof *job);
    if (!job)
        return SONDE_OUT_OF_MEMORY;
    job->job.perform = perform;
    job->job.complete = complete;
    job->begin.run = on_begin;
    job->spec = *spec;
    job->spec.target = (struct engine_selector){0};
    job->on_answer = on_answer;
    job->context = context;
    sonde_err err = check_spec(spec, diag);
    if (!err)
        err = enlist(engine, job, &spec->target, diag);
    if (err) {
        free(job);
        return err;
    }
    engine_post(engine, &job->begin);
    return SONDE_OK;
}
