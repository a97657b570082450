/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of a capture. Each is a job on a worker. The jobs of a capture are queued and run one
 * at a time, so its events are in order and never overlap. A report at the head of the queue waits
 * up to ENGINE_NAMES_NS for the symbol and line tables of its modules; meanwhile progress events go
 * on. */
#include "service/engine/capture/jobs.h"

#include "service/engine/capture/budget.h"
#include "service/engine/capture/clock.h"
#include "service/engine/code/tables.h"
#include "service/engine/report/table_problems.h"
#include "service/host/processes/process_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void job_free(struct capture_job *job) {
    report_input_finish(&job->report);
    stacks_release(job->progress.stacks);
    free(job->progress.leaves);
    capture_release(&job->capture->base);
    free(job);
}

/* Takes an ended capture off its target's list. */
static void forget(struct cpu_capture *capture) {
    struct cpu_capture **at = &capture->base.target->captures;
    while (*at && *at != capture)
        at = &(*at)->next;
    if (*at)
        *at = capture->next;
    target_wake_now(capture->base.target);
    capture_release(&capture->base);
}

static void on_job_done(struct engine *engine, struct job *base) {
    struct capture_job *job = container_of(base, struct capture_job, job);
    struct cpu_capture *capture = job->capture;
    capture->running_job = NULL;
    target_wake_now(capture->base.target);
    if (job->kind == JOB_END)
        forget(capture);
    job_free(job);
}

struct capture_job *job_create(struct cpu_capture *capture, enum job_kind kind,
                               void (*perform)(struct job *)) {
    struct capture_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->kind = kind;
    job->job.perform = perform;
    job->job.complete = on_job_done;
    job->capture = capture;
    capture_retain(&capture->base);
    return job;
}

void job_enqueue(struct cpu_capture *capture, struct capture_job *job) {
    job->next = NULL;
    if (capture->last_job)
        capture->last_job->next = job;
    else
        capture->first_job = job;
    capture->last_job = job;
    capture->job_count++;
    target_wake_now(capture->base.target);
}

void job_push_front(struct cpu_capture *capture, struct capture_job *job) {
    job->next = capture->first_job;
    capture->first_job = job;
    if (!capture->last_job)
        capture->last_job = job;
    capture->job_count++;
}

static struct capture_job *dequeue(struct cpu_capture *capture) {
    struct capture_job *job = capture->first_job;
    if (!job)
        return NULL;
    capture->first_job = job->next;
    if (!capture->first_job)
        capture->last_job = NULL;
    capture->job_count--;
    if (job->kind == JOB_REPORT)
        capture->names_deadline_ns = 0;
    return job;
}

void jobs_drop_queued(struct cpu_capture *capture) {
    struct capture_job *job;
    while ((job = dequeue(capture)) != NULL) {
        if (job->kind != JOB_END) {
            job_free(job);
            continue;
        }
        capture->end_job = job; /* jobs_end uses it again, with another error */
        capture_release(&capture->base);
    }
}

/* A stream's windows do not wait for line tables, which a later window can use. */
static bool is_ready(struct cpu_capture *capture, const struct report_input *report) {
    bool ready = true;
    for (uint32_t i = 0; i < report->part_count && !report->no_symbols; i++) {
        struct stacks *stacks = report->parts[i].stacks;
        ready &= tables_load_names(capture->base.target, stacks);
        ready &= capture->spec.window_ms || !tables_are_converting(stacks);
    }
    return ready;
}

static uint64_t names_deadline(const struct cpu_capture *capture, uint64_t now_ns) {
    uint64_t patience_ns = now_ns + ENGINE_NAMES_NS, by_ns = capture->spec.result_by_ns;
    if (by_ns == 0 || by_ns > patience_ns + ENGINE_NAMES_SPARE_NS)
        return patience_ns;
    return by_ns > now_ns + ENGINE_NAMES_SPARE_NS ? by_ns - ENGINE_NAMES_SPARE_NS : now_ns;
}

uint64_t jobs_run(struct cpu_capture *capture, uint64_t now_ns) {
    struct capture_job *first = capture->first_job;
    if (!first || capture->running_job)
        return 0;
    if (first->kind == JOB_REPORT && !is_ready(capture, &first->report)) {
        if (capture->names_deadline_ns == 0)
            capture->names_deadline_ns = names_deadline(capture, now_ns);
        if (now_ns < capture->names_deadline_ns) {
            if (!jobs_wait_progress(capture, &first->report, now_ns))
                return now_ns + ENGINE_NAMES_LOOK_NS;
            first = capture->first_job;
        }
    }
    dequeue(capture);
    capture->running_job = first;
    capture->is_last_event_running = first->kind == JOB_END;
    target_start_job(capture->base.target, capture->base.engine->reporters, &first->job);
    return 0;
}

static void perform_report(struct job *base) {
    struct capture_job *job = container_of(base, struct capture_job, job);
    struct cpu_capture *capture = job->capture;
    struct sonde_profile *profile = NULL;
    sonde_err err =
        report_build(&job->report, capture->base.engine->symbols, &profile, &capture->report_diag);
    if (err)
        capture->report_err = err;
    else if (capture->base.events.on_profile)
        capture->base.events.on_profile(capture->base.context, profile, &job->report.metadata);
    else
        sonde_profile_destroy(profile);
}

static void fill_drops(const struct cpu_capture *capture, struct engine_metadata *metadata) {
    const struct window *window = &capture->window;
    const struct totals *now = &capture->base.target->totals;
    for (int i = 0; i < DROP_CAUSES; i++) {
        uint64_t count = i == DROP_STACKS_FULL ? window->stacks_full
                         : i == DROP_MEMORY    ? window->lacking_memory
                                               : now->drops[i] - window->base.drops[i];
        metadata->drops[i] = (struct engine_drop){.cause = drop_cause_name(i), .count = count};
        metadata->dropped += count;
    }
    metadata->drop_count = DROP_CAUSES;
}

static void fill_metadata(const struct cpu_capture *capture, uint64_t now_ns,
                          struct engine_metadata *metadata) {
    const struct window *window = &capture->window;
    const struct totals *now = &capture->base.target->totals, *base = &window->base;
    uint64_t handler_ns = now->handler_ns - base->handler_ns;
    uint64_t account_ns = now->account_ns - base->account_ns;
    metadata->sequence = window->sequence;
    metadata->start_unix_ns = window->start_unix_ns;
    metadata->end_unix_ns = window->start_unix_ns + (int64_t)(now_ns - window->start_ns);
    metadata->period_ns = capture->unit;
    metadata->samples = window->samples;
    metadata->truncated = window->truncated;
    metadata->guest_cpu_ns =
        account_ns ? account_ns : handler_ns; /* the report includes the handlers */
    uint64_t cpu_at_ns = capture->closed_ns ? capture->closed_cpu_ns : now->target_cpu_ns;
    uint64_t cpu_ns = cpu_at_ns - base->target_cpu_ns;
    uint64_t control_ns = now->control_ns - base->control_ns;
    metadata->target_cpu_ns = cpu_ns > control_ns ? cpu_ns - control_ns : 0;
    metadata->target_gone = capture->target_gone;
    metadata->target_execed = capture->target_execed;
    metadata->event = capture->spec.event;
    fill_drops(capture, metadata);
}

static void describe_tables(const struct report_input *report, char *text, size_t size) {
    struct table_problems problems = {0};
    for (size_t i = 0; i < report->part_count && problems.count == 0; i++) {
        const struct stacks *stacks = report->parts[i].stacks;
        for (uint32_t mapping = 1; mapping < stacks->mappings.count; mapping++)
            table_problems_add(&problems, stacks_mapping(stacks, mapping));
    }
    table_problems_describe(&problems, text, size);
}

/* Why there are no samples, if the process cannot run. A recording does not look. */
static const char *stopped_note(const struct cpu_capture *capture,
                                const struct engine_metadata *metadata) {
    struct process_entry process;
    pid_t pid = capture->base.target->info.pid;
    bool is_stopped = metadata->samples == 0 && pid && !capture->spec.is_recording &&
                      process_read(pid, &process) && process.is_stopped;
    return is_stopped ? "the process is stopped, by a signal or a debugger: it goes on with "
                        "SIGCONT"
                      : "";
}

/* How the profile was sampled, and what makes it less than it should be. */
static void join_notes(const struct cpu_capture *capture, struct report_input *report) {
    struct engine_metadata *metadata = &report->metadata;
    char tables[224];
    describe_tables(report, tables, sizeof tables);
    const char *const notes[] = {stopped_note(capture, metadata), capture->source_note,
                                 capture->base.target->info.clock_note, tables};
    size_t used = 0;
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        if (!notes[i][0] || used >= sizeof metadata->clock_note)
            continue;
        used += (size_t)snprintf(metadata->clock_note + used, sizeof metadata->clock_note - used,
                                 "%s%s", used ? "; " : "", notes[i]);
    }
}

static void take_window(struct cpu_capture *capture, struct report_input *report) {
    struct window *window = &capture->window;
    const struct engine_target *info = &capture->base.target->info;
    memcpy(report->parts, window->parts, sizeof report->parts);
    report->part_count = window->part_count;
    for (uint32_t i = 0; i < report->part_count; i++)
        report->parts[i].span_count = report->parts[i].stacks->spans.count;
    window->part_count = 0;
    memset(window->parts, 0, sizeof window->parts);
    report->bins = window->bins;
    report->has_timeline = capture->spec.has_timeline;
    window->bins = (struct time_bins){0};
    memcpy(report->cut_stacks, window->cut_stacks, sizeof report->cut_stacks);
    report->forgotten = window->forgotten;
    const struct generation *newest = capture->base.target->space.generations[0];
    report->ignored_mappings = newest ? newest->ignored : capture->base.target->ignored_mappings;
    report->no_symbols = capture->spec.no_symbols;
    report->counts_waits = capture->spec.counts_waits;
    report->are_waits_samples = capture->are_waits_samples;
    report->frequency_hz = capture->spec.frequency_hz;
    report->max_samples = capture->spec.max_samples;
    report->growth = capture->grown;
    report->pid = info->pid;
    memcpy(report->target_name, info->name, sizeof report->target_name);
    memcpy(report->root_name, capture->base.target->root_name, sizeof report->root_name);
    memcpy(report->executable, info->executable, sizeof report->executable);
    report->metadata.pid = info->pid;
    memcpy(report->metadata.target_name, info->name, sizeof report->metadata.target_name);
    memcpy(report->metadata.clock, info->clock, sizeof report->metadata.clock);
    join_notes(capture, report);
}

/* The mean rate is that of the whole capture so far. */
static void take_rate(struct cpu_capture *capture, uint64_t now_ns, struct report_input *report) {
    cpu_capture_note_rate(capture, now_ns);
    report->every = capture->by_number ? capture->spec.every : 0;
    if (capture->is_counted) {
        uint64_t ran_ns = now_ns - capture->start_ns;
        report->metadata.frequency_hz =
            ran_ns ? (double)capture->samples * 1e9 / (double)ran_ns : 0;
        budget_describe_counted(capture, report->metadata.budget_note,
                                sizeof report->metadata.budget_note);
        return;
    }
    uint64_t ran_ns = capture->rate.since_ns - capture->start_ns;
    double mean_hz = ran_ns ? capture->rate.sum / (double)ran_ns : 1e9 / (double)capture->period_ns;
    report->metadata.frequency_hz = mean_hz;
    budget_describe(capture, mean_hz, report->metadata.budget_note,
                    sizeof report->metadata.budget_note);
}

void jobs_report(struct cpu_capture *capture, uint64_t now_ns) {
    struct capture_job *job = job_create(capture, JOB_REPORT, perform_report);
    if (!job)
        return; /* out of memory: the window stays open */
    struct engine_metadata *metadata = &job->report.metadata;
    fill_metadata(capture, now_ns, metadata);
    take_rate(capture, now_ns, &job->report);
    take_window(capture, &job->report);
    job_enqueue(capture, job);
    if (capture->state == CAPTURE_RUNNING)
        cpu_capture_next_window(capture, now_ns,
                                capture->spec.is_recording ? now_unix_ns() : metadata->end_unix_ns);
}

static void perform_end(struct job *base) {
    struct capture_job *job = container_of(base, struct capture_job, job);
    struct cpu_capture *capture = job->capture;
    struct engine *engine = capture->base.engine;
    sonde_err err = job->end.err;
    const struct sonde_diag *diag = job->end.has_diag ? &job->end.diag : NULL;
    if (err == SONDE_OK && capture->report_err != SONDE_OK) {
        err = capture->report_err;
        diag = &capture->report_diag;
    }
    /* Before the event, because its receiver may start another capture at once. */
    if (!capture->spec.is_recording) {
        capture_unreserve(capture->base.target);
        atomic_fetch_sub(&engine->streams_running, capture->spec.window_ms ? 1 : 0);
    }
    capture->base.events.on_end(capture->base.context, err, diag);
}

/* The job was allocated with the capture, so on_end cannot fail. */
void jobs_end(struct cpu_capture *capture, sonde_err err, const struct sonde_diag *diag) {
    struct capture_job *job = capture->end_job;
    capture->end_job = NULL;
    if (!job)
        return;
    job->end.err = err;
    job->end.has_diag = diag != NULL;
    if (diag)
        job->end.diag = *diag;
    capture_retain(&capture->base);
    job_enqueue(capture, job);
}

bool jobs_prepare_end(struct cpu_capture *capture) {
    struct capture_job *job = job_create(capture, JOB_END, perform_end);
    if (!job)
        return false;
    capture_release(&capture->base); /* jobs_end retains it again, so there is no cycle */
    capture->end_job = job;
    return true;
}

void jobs_discard_end(struct cpu_capture *capture) {
    free(capture->end_job);
    capture->end_job = NULL;
}
