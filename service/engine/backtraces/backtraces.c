/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/backtraces/backtraces_request.h"
#include "service/engine/report/table_problems.h"
#include "service/engine/targets/find_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS         4
#define TICKING_ROUNDS 40
#define ROUND_PAUSE_NS 1000000
#define BUSY_NS        200000

struct backtraces_job {
    struct job job;
    struct message begin;
    struct target *target;
    struct engine_backtraces_spec spec;
    bool is_ticking;
    engine_on_backtraces *on_answer;
    void *context;
};

/* The threads still to be walked, and the CPU time each had used at the first look. */
struct walk_state {
    bool is_pending, is_seen;
    uint64_t cpu_ns;
};

/* A thread that has used CPU time since the first look is working and may be stopped. A thread that
 * is just starting to run or to sleep is looked at again. In the last round it is stopped, too,
 * unless a capture is running, whose tick could then hit the thread inside a system call. */
static bool may_stop(const struct backtraces *all, const struct engine_thread *thread,
                     const struct walk_state *pending, int round) {
    bool is_busy = pending->is_seen && thread->cpu_ns - pending->cpu_ns >= BUSY_NS;
    return is_busy || (!all->is_ticking && round >= ROUNDS - 1);
}

static uint32_t walk_round(struct backtraces *all, struct walk_state *threads_pending, int round) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < all->thread_count && !atomic_load(&all->engine->is_ending); i++) {
        struct engine_thread *thread = &all->threads[i];
        struct walk_state *pending = &threads_pending[i];
        if (!pending->is_pending)
            continue;
        enum backtraces_outcome outcome = BACKTRACES_GONE;
        if (backtraces_read(all, thread))
            outcome = backtraces_walk(all, thread, may_stop(all, thread, pending, round));
        if (!pending->is_seen)
            pending->cpu_ns = thread->cpu_ns;
        pending->is_seen = true;
        pending->is_pending = outcome == BACKTRACES_RUNNING;
        running += pending->is_pending;
        if (outcome == BACKTRACES_GONE)
            thread->tid = 0;
    }
    return running;
}

/* Skips threads that have ended. */
static void walk_all(struct backtraces *all) {
    struct walk_state *pending =
        sonde_arena_alloc(&all->arena, (all->thread_count + 1) * sizeof *pending);
    struct timespec moment = {0, ROUND_PAUSE_NS};
    uint32_t kept = 0, count = pending ? all->thread_count : 0;
    for (uint32_t i = 0; i < count; i++)
        pending[i].is_pending = true;
    for (int round = 0; round < (all->is_ticking ? TICKING_ROUNDS : ROUNDS); round++) {
        if (count == 0 || walk_round(all, pending, round) == 0)
            break;
        nanosleep(&moment, NULL);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (pending[i].is_pending)
            all->threads[i].error = "it waits for a CPU, and a capture runs: ask again";
        if (all->threads[i].tid)
            all->threads[kept++] = all->threads[i];
    }
    all->thread_count = kept;
}

static void *trace(void *context) {
    walk_all(context);
    return NULL;
}

/* ptrace belongs to a thread; when that thread exits, the kernel releases whatever it still
 * traces. */
static sonde_err walk_on_tracer(struct backtraces *all) {
    pthread_t tracer;
    if (pthread_create(&tracer, NULL, trace, all) != 0)
        return SONDE_OUT_OF_MEMORY;
    pthread_join(tracer, NULL);
    return SONDE_OK;
}

static void describe_tables(const struct process_code *code, char *text, size_t size) {
    struct table_problems problems = {0};
    for (uint32_t i = 0; i < code->generation->count; i++)
        table_problems_add(&problems, code->generation->mappings[i]);
    table_problems_describe(&problems, text, size);
}

static const char *note_of(struct backtraces *all) {
    char text[320] = "";
    if (all->other_tracer)
        snprintf(text, sizeof text,
                 "process %d traces %u of the threads: end it (a debugger, strace) and ask again",
                 (int)all->other_tracer, all->refused);
    else if (all->refused)
        snprintf(text, sizeof text,
                 "stacks of %u threads are missing, because sonded may not read the process: run "
                 "sonded as root or as the process's own user, and with kernel.yama.ptrace_scope=0 "
                 "or CAP_SYS_PTRACE",
                 all->refused);
    else if (all->left_out)
        snprintf(text, sizeof text, "%u more threads are not shown: raise max_threads",
                 all->left_out);
    else
        describe_tables(&all->code, text, sizeof text);
    return text[0] ? sonde_arena_dup(&all->arena, text, strlen(text)) : "";
}

static void add_up(const struct backtraces *all, struct engine_backtraces *answer) {
    answer->not_walked = all->left_out;
    for (uint32_t i = 0; i < all->thread_count; i++) {
        uint64_t stop_ns = all->threads[i].stop_ns;
        answer->total_stop_ns += stop_ns;
        answer->not_walked += all->threads[i].stack == 0;
        if (stop_ns > answer->longest_stop_ns)
            answer->longest_stop_ns = stop_ns;
    }
}

static sonde_err collect(struct backtraces *all, struct engine_backtraces *answer,
                         struct sonde_diag *diag) {
    sonde_err err = backtraces_list(all, diag);
    if (!err && !(all->scratch = malloc((UNWIND_REMOTE_FRAMES + 2) * sizeof *all->scratch)))
        err = SONDE_OUT_OF_MEMORY;
    if (!err)
        err = process_code_init(&all->code, all->engine, all->process);
    if (err == SONDE_NOT_AVAILABLE)
        return sonde_fail(diag, err,
                          "the memory map of process %d cannot be read: run sonded as root or as "
                          "the process's own user",
                          (int)all->pid);
    answer->unix_ns = now_unix_ns();
    if (!err)
        err = walk_on_tracer(all);
    if (!err)
        err = backtraces_check(all, diag);
    if (!err)
        err = backtraces_name(all, answer);
    if (!err)
        err = backtraces_find_locks(all, answer);
    if (!err)
        err = backtraces_check(all, diag);
    if (err)
        return err;
    if (all->thread_count == 0)
        return sonde_fail(diag, SONDE_TARGET_GONE, "the process %d has ended", (int)all->pid);
    answer->threads = all->threads;
    answer->thread_count = all->thread_count;
    answer->note = note_of(all);
    answer->note = answer->note ? answer->note : "";
    add_up(all, answer);
    return SONDE_OK;
}

static void finish(struct backtraces *all) {
    process_code_finish(&all->code);
    if (all->task_dir >= 0)
        close(all->task_dir);
    free(all->scratch);
    free(all->threads);
    free(all->stacks);
    hash_index_finish(&all->stack_index);
    sonde_arena_finish(&all->arena);
}

static void perform(struct job *base) {
    struct backtraces_job *job = container_of(base, struct backtraces_job, job);
    struct sonde_diag diag = {0};
    struct backtraces all = {
        .engine = base->engine,
        .spec = job->spec,
        .is_ticking = job->is_ticking,
        .process = &job->target->process,
        .pid = job->target->pid,
        .task_dir = -1,
    };
    hash_index_init(&all.stack_index);
    struct engine_backtraces answer = {
        .target_name = job->target->info.name, .pid = all.pid, .note = ""};
    sonde_err err = collect(&all, &answer, &diag);
    job->on_answer(job->context, err, &diag, err ? NULL : &answer);
    finish(&all);
}

static void complete(struct engine *engine, struct job *base) {
    struct backtraces_job *job = container_of(base, struct backtraces_job, job);
    target_release(job->target);
    free(job);
}

static void on_begin(struct engine *engine, struct message *message) {
    struct backtraces_job *job = container_of(message, struct backtraces_job, begin);
    job->is_ticking = job->target->clock != CLOCK_IDLE;
    target_start_job(job->target, engine->builders, &job->job);
}

static sonde_err check_spec(struct engine_backtraces_spec *spec, struct sonde_diag *diag) {
    if (spec->max_depth > ENGINE_BACKTRACES_MAX_DEPTH || spec->max_depth == 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "max_depth is %u: it must be 2 to %u frames, or 0 for %u",
                          spec->max_depth, ENGINE_BACKTRACES_MAX_DEPTH, ENGINE_BACKTRACES_DEPTH);
    if (spec->max_threads > ENGINE_BACKTRACES_MAX_THREADS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "max_threads is %u: it must be 1 to %u, or 0 for %u", spec->max_threads,
                          ENGINE_BACKTRACES_MAX_THREADS, ENGINE_BACKTRACES_THREADS);
    if (spec->tid < 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "tid is %d: it must not be negative",
                          (int)spec->tid);
    spec->max_depth = spec->max_depth ? spec->max_depth : ENGINE_BACKTRACES_DEPTH;
    spec->max_threads = spec->max_threads ? spec->max_threads : ENGINE_BACKTRACES_THREADS;
    return SONDE_OK;
}

sonde_err engine_backtraces(struct engine *engine, const struct engine_backtraces_spec *spec,
                            engine_on_backtraces *on_answer, void *context,
                            struct sonde_diag *diag) {
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct backtraces_job *job = calloc(1, sizeof *job);
    if (!job)
        return SONDE_OUT_OF_MEMORY;
    job->job.perform = perform;
    job->job.complete = complete;
    job->begin.run = on_begin;
    job->spec = *spec;
    job->spec.target = (struct engine_selector){0};
    job->on_answer = on_answer;
    job->context = context;
    sonde_err err = check_spec(&job->spec, diag);
    if (!err)
        err = find_process(engine, &spec->target, "stacks", &job->target, diag);
    if (err) {
        free(job);
        return err;
    }
    engine_post(engine, &job->begin);
    return SONDE_OK;
}
