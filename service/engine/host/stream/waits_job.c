/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/waits.h"
#include "service/host/sampler/sampler.h"

#include <stdio.h>
#include <stdlib.h>

struct waits_job {
    struct job job;
    struct waits *waits;
    struct off_cpu_options options;
    struct host_target *members; /* opening: the targets that want waits */
    uint32_t member_count;
    struct off_cpu *off_cpu;
    struct sonde_diag diag;
    struct waits_process *processes;
    uint32_t count;
    bool is_last, is_all, wants_locks;
    uint64_t period_ns, seed, began_ns, next_ns;
};

static struct waits_job *create(struct waits *waits, void (*perform)(struct job *),
                                void (*complete)(struct engine *, struct job *)) {
    struct waits_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->job.perform = perform;
    job->job.complete = complete;
    job->waits = waits;
    job->period_ns = waits->period_ns;
    job->seed = engine_random(waits->stream->engine);
    job->began_ns = now_monotonic_ns();
    return job;
}

static void start(struct waits_job *job) {
    struct host_stream *stream = job->waits->stream;
    stream->jobs++;
    job->waits->job = job;
    engine_start_job(stream->engine, stream->engine->reporters, &job->job);
}

/* The stream may have ended meanwhile. */
static void finish(struct waits_job *job) {
    struct host_stream *stream = job->waits->stream;
    job->waits->job = NULL;
    free(job->members);
    free(job);
    stream->jobs--;
    stream_free_if_over(stream);
}

/* --- opening ----------------------------------------------------------------------------------*/

/* Slots for twice the threads of this machine: "0.10 0.08 0.01 2/345 6789". */
static uint32_t slots_wanted(void) {
    unsigned threads = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file && fscanf(file, "%*s %*s %*s %*u/%u", &threads) != 1)
        threads = 0;
    if (file)
        fclose(file);
    return threads < 256 ? 512 : 2 * threads;
}

static bool is_known(const struct waits_job *job, pid_t pid) {
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->processes[i].pid == pid)
            return true;
    }
    return false;
}

static void add_pids(struct waits_job *job, const pid_t *pids, size_t count) {
    struct waits_process *processes =
        realloc(job->processes, (job->count + count + 1) * sizeof *processes);
    if (!processes)
        return;
    job->processes = processes;
    for (size_t i = 0; i < count && job->count < WAITS_MAX_PROCESSES; i++) {
        if (!is_known(job, pids[i]))
            processes[job->count++] = (struct waits_process){.pid = pids[i]};
    }
}

static void list_processes(struct waits_job *job) {
    for (uint32_t i = 0; i < job->member_count; i++) {
        const struct host_target *members = &job->members[i];
        size_t count = 1;
        pid_t *pids = members->members == HOST_ONE ? NULL : host_list_pids(members, &count);
        add_pids(job, pids ? pids : &members->pid,
                 pids || members->members == HOST_ONE ? count : 0);
        job->is_all |= members->members == HOST_EVERY && !members->has_owner;
        free(pids);
    }
}

static void begin_look(struct waits_job *job, struct waits_process *process, bool is_once) {
    process->look =
        look_create(job->job.engine, process->pid, job->period_ns, job->seed + process->pid);
    process->is_gone = !process->look;
    if (!process->look)
        return;
    process->look->is_once = is_once;
    look_begin(process->look);
}

static void perform_opening(struct job *base) {
    struct waits_job *job = container_of(base, struct waits_job, job);
    if (atomic_load(&base->engine->is_ending))
        return;
    if (off_cpu_open(&job->options, &job->off_cpu, &job->diag))
        job->off_cpu = NULL;
    list_processes(job);
    for (uint32_t i = 0; i < job->count; i++)
        begin_look(job, &job->processes[i], job->off_cpu != NULL);
}

static void complete_opening(struct engine *engine, struct job *base) {
    struct waits_job *job = container_of(base, struct waits_job, job);
    waits_opened(job->waits, job->off_cpu, &job->diag, job->processes, job->count, job->is_all);
    finish(job);
}

bool waits_start_opening(struct waits *waits) {
    struct host_stream *stream = waits->stream;
    struct waits_job *job = create(waits, perform_opening, complete_opening);
    if (!job)
        return false;
    job->members = calloc(stream->target_count + 1, sizeof *job->members);
    for (struct target *target = stream->targets; job->members && target;
         target = target->host->next) {
        struct host_target *members = &job->members[job->member_count];
        if (!target->wall_period_ns)
            continue;
        *members = *target->host;
        job->member_count++;
    }
    job->options = (struct off_cpu_options){
        .load = stream->engine->sampler ? sampler_load_off_cpu : NULL,
        .load_context = stream->engine->sampler,
        .capabilities = sampler_capabilities(stream->engine->sampler),
        .max_threads = slots_wanted(),
        .period_ns = waits->period_ns,
        .stack_bytes = WAITS_STACK_BYTES,
        .max_per_second = WAITS_MAX_PER_SECOND,
    };
    start(job);
    return true;
}

/* --- rounds -----------------------------------------------------------------------------------*/

/* Returns the CPU time that the round of one look took, except its first. */
static uint64_t run_look(struct waits_job *job, struct waits_process *process) {
    struct look *look = process->look;
    uint64_t began_ns = thread_cpu_ns();
    bool is_first = !look->waits;
    look->wants_locks = job->wants_locks;
    look_round(look, job->is_last);
    process->has_uncounted = look->wait_count > 0;
    return is_first ? 0 : thread_cpu_ns() - began_ns;
}

static void perform_round(struct job *base) {
    struct waits_job *job = container_of(base, struct waits_job, job);
    uint64_t cost_ns = 0, earliest_ns = UINT64_MAX;
    if (atomic_load(&base->engine->is_ending))
        return;
    job->began_ns = now_monotonic_ns();
    for (uint32_t i = 0; i < job->count; i++) {
        struct waits_process *process = &job->processes[i];
        if (!process->look && !process->is_gone)
            begin_look(job, process, false);
        struct look *look = process->look;
        bool is_due = job->is_last || (look && look->next_ns <= job->began_ns);
        if (look && is_due && (job->is_last || cost_ns < WAITS_ROUND_NS))
            cost_ns += run_look(job, process);
        if (look && look->next_ns && look->next_ns < earliest_ns)
            earliest_ns = look->next_ns;
    }
    uint64_t rest_ns = now_monotonic_ns() + cost_ns * WAITS_SHARE;
    job->next_ns = earliest_ns == UINT64_MAX ? 0 : earliest_ns > rest_ns ? earliest_ns : rest_ns;
}

static void complete_round(struct engine *engine, struct job *base) {
    struct waits_job *job = container_of(base, struct waits_job, job);
    waits_rounded(job->waits, job->is_last, job->began_ns, job->next_ns);
    finish(job);
}

bool waits_start_round(struct waits *waits, bool is_last) {
    struct waits_job *job = create(waits, perform_round, complete_round);
    if (!job)
        return false;
    job->is_last = is_last;
    job->wants_locks = waits_want_locks(waits->stream);
    job->processes = waits->processes;
    job->count = waits->count;
    start(job);
    return true;
}
