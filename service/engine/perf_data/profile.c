/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile of a recording. Its sample types are "samples" and the event, or, if the file has
 * several events, the two for each: "cycles:samples", "cycles", "page-faults:samples" ... The first
 * clock is called "cpu" as in our own captures, so that they can be compared. */
#include "service/engine/perf_data/parts.h"
#include "service/engine/report/report_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES   ((size_t)1 << 30)
#define MAX_LABELS  3
#define NAMES_MS    20000 /* to wait for inlined functions and lines */
#define MAX_COMMENT 512

struct building {
    const struct recorded_counts *counts;
    const struct recorded_code *code;
    const struct recorded_processes *processes;
    struct sonde_profile *profile;
    struct report_frames frames;
    uint32_t *frame_of_node; /* number of the frame + 1; 0 = not used */
    uint32_t thread_key, tid_key, pid_key;
    uint32_t type_of[PERF_FILE_MAX_EVENTS]; /* of an event: the first of its two types */
    bool has_samples[PERF_FILE_MAX_EVENTS];
};

/* ---- sample types ---- */

struct types {
    struct sonde_value_type items[2 * PERF_FILE_MAX_EVENTS];
    char samples[PERF_FILE_MAX_EVENTS][80]; /* names */
    size_t count;
};

/* perf adds events that never have a sample, to follow processes. */
static uint32_t mark_events(struct building *building) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < building->counts->count; i++) {
        bool *has_samples = &building->has_samples[building->counts->items[i].event];
        used += !*has_samples;
        *has_samples = true;
    }
    return used;
}

static void choose_types(struct building *building, struct types *types) {
    const struct perf_file *file = building->code->file;
    bool has_cpu = false;
    uint32_t used = mark_events(building);
    for (uint32_t i = 0; i < perf_file_event_count(file); i++) {
        const struct perf_file_event *event = perf_file_event(file, i);
        const char *name = event->is_time && !has_cpu ? "cpu" : event->name;
        if (!building->has_samples[i])
            continue;
        has_cpu |= event->is_time;
        building->type_of[i] = (uint32_t)types->count;
        snprintf(types->samples[i], sizeof types->samples[i], used > 1 ? "%s:samples" : "samples",
                 name);
        types->items[types->count++] = (struct sonde_value_type){types->samples[i], "count"};
        types->items[types->count++] =
            (struct sonde_value_type){name, event->is_time ? "nanoseconds" : "count"};
    }
    if (used == 0)
        types->items[types->count++] = (struct sonde_value_type){"samples", "count"};
}

/* What a sample of the first event stands for; its clock may have had several periods. */
static int64_t mean_period(const struct building *building) {
    uint64_t amount = 0, samples = 0;
    for (uint32_t i = 0; i < building->counts->count; i++) {
        const struct recorded_count *count = &building->counts->items[i];
        bool is_first = building->type_of[count->event] == 0;
        amount += is_first ? count->amount : 0;
        samples += is_first ? count->samples : 0;
    }
    return samples && amount / samples <= INT64_MAX ? (int64_t)(amount / samples) : 0;
}

static sonde_err create_profile(struct building *building) {
    const struct perf_file_notes *notes = perf_file_notes(building->code->file);
    struct types types = {.count = 0};
    choose_types(building, &types);
    building->profile = sonde_profile_create(types.items, types.count, MAX_BYTES);
    if (!building->profile)
        return SONDE_OUT_OF_MEMORY;
    const uint32_t shown = types.count > 1;
    const struct sonde_profile_info info = {.period_type = types.items[shown],
                                            .period = mean_period(building),
                                            .duration_ns =
                                                (int64_t)(notes->last_ns - notes->first_ns),
                                            .default_type = shown};
    sonde_profile_set_info(building->profile, &info);
    return SONDE_OK;
}

/* ---- frames ---- */

/* A file of one process has no frame for it. */
static bool is_shown(const struct building *building, const struct stack_node *node) {
    return node->mapping != STACKS_PROCESS || building->processes->sampled > 1;
}

/* Adds the frames of one stack; stops at a node that an earlier stack has added. */
static sonde_err mark_stack(struct building *building, uint32_t id) {
    const struct stacks *stacks = building->counts->stacks;
    sonde_err err = SONDE_OK;
    while (id != 0 && building->frame_of_node[id] == 0 && !err) {
        const struct stack_node *node = stacks_node(stacks, id);
        uint32_t frame;
        if (is_shown(building, node)) {
            err = report_frames_add(&building->frames, stacks, node, &frame);
            building->frame_of_node[id] = frame + 1;
        }
        id = node->parent;
    }
    return err;
}

static sonde_err collect_frames(struct building *building) {
    const struct recorded_counts *counts = building->counts;
    sonde_err err = SONDE_OK;
    building->frame_of_node = calloc(counts->stacks->nodes.count, sizeof(uint32_t));
    if (!building->frame_of_node)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < counts->count && !err; i++)
        err = mark_stack(building, counts->items[i].stack);
    return err;
}

/* Loads the tables of all modules that are on a stack: the line tables together, because each is
 * made by a worker. */
static sonde_err load_names(const struct building *building) {
    const struct stacks *stacks = building->counts->stacks;
    uint32_t total = stacks->mappings.count, count = 0;
    struct symbol_query *queries = calloc(total, sizeof *queries);
    struct symbol_answer *answers = calloc(total, sizeof *answers);
    struct sonde_arena arena = {0};
    sonde_err err = queries && answers ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 1; i < total && !err; i++) {
        struct mapping *mapping = stacks_mapping(stacks, i);
        atomic_store_explicit(&mapping->has_names, true, memory_order_release);
        if (mapping_module(mapping) && mapping->has_bias)
            queries[count++] = (struct symbol_query){.module = mapping_module(mapping),
                                                     .vaddr = mapping->start - mapping->bias};
    }
    if (!err && count > 0)
        err =
            symbol_resolve_wait(building->code->symbols, queries, count, NAMES_MS, &arena, answers);
    sonde_arena_finish(&arena);
    free(queries);
    free(answers);
    return err;
}

/* ---- samples ---- */

static sonde_err intern(struct building *building, const char *text, uint32_t *id) {
    return sonde_profile_string(building->profile, text, strlen(text), id);
}

static sonde_err intern_keys(struct building *building) {
    sonde_err err = intern(building, "thread", &building->thread_key);
    if (!err)
        err = intern(building, "tid", &building->tid_key);
    return err ? err : intern(building, "pid", &building->pid_key);
}

static sonde_err add_labels(struct building *building, const struct stack_thread *thread,
                            struct sonde_label labels[MAX_LABELS], uint32_t *count) {
    sonde_err err = SONDE_OK;
    if (thread->name[0]) {
        labels[*count].key = building->thread_key;
        err = intern(building, thread->name, &labels[(*count)++].str);
    }
    if (thread->tid)
        labels[(*count)++] = (struct sonde_label){.key = building->tid_key, .num = thread->tid};
    if (thread->pid && building->processes->sampled > 1)
        labels[(*count)++] = (struct sonde_label){.key = building->pid_key, .num = thread->pid};
    return err;
}

static sonde_err add_sample(struct building *building, const struct recorded_count *count) {
    const struct stacks *stacks = building->counts->stacks;
    uint32_t locations[SONDE_PROFILE_MAX_DEPTH], depth = 0, label_count = 0;
    struct sonde_label labels[MAX_LABELS] = {{0}};
    int64_t values[2 * PERF_FILE_MAX_EVENTS] = {0};
    for (uint32_t id = count->stack; id != 0 && depth < SONDE_PROFILE_MAX_DEPTH;
         id = stacks_node(stacks, id)->parent)
        if (building->frame_of_node[id])
            locations[depth++] = building->frames.items[building->frame_of_node[id] - 1].location;
    sonde_err err = add_labels(building, stable_vector_at(&stacks->threads, count->thread), labels,
                               &label_count);
    if (err)
        return err;
    values[2 * count->event] = (int64_t)count->samples;
    values[2 * count->event + 1] = count->amount > INT64_MAX ? INT64_MAX : (int64_t)count->amount;
    const struct sonde_sample sample = {.locations = locations,
                                        .location_count = depth,
                                        .label_count = label_count,
                                        .values = values,
                                        .labels = labels};
    return sonde_profile_add_sample(building->profile, &sample);
}

/* ---- comments ---- */

static const struct recorded_process *first_sampled(const struct recorded_processes *processes) {
    for (uint32_t i = 0; i < processes->count; i++)
        if (processes->items[i].is_sampled)
            return &processes->items[i];
    return NULL;
}

/* As in our own captures, so that pictures show processes as such. */
static void add_target(const struct building *building, struct sonde_buf *text) {
    const struct recorded_process *process = first_sampled(building->processes);
    if (process && building->processes->sampled == 1)
        sonde_buf_printf(text, "target: %s, pid %d", recorded_process_name(process), process->pid);
    else if (process)
        sonde_buf_puts(text, "target: @all");
}

static void add_source(const struct building *building, struct sonde_buf *text) {
    const struct perf_file *file = building->code->file;
    const char *separator = "sampled: by perf record, ";
    for (uint32_t i = 0; i < perf_file_event_count(file); i++) {
        if (!building->has_samples[i])
            continue;
        sonde_buf_printf(text, "%s%s", separator, perf_file_event(file, i)->name);
        separator = ", ";
    }
}

static void add_drops(const struct building *building, struct sonde_buf *text) {
    uint64_t lost = building->counts->lost, lost_samples = building->counts->lost_samples;
    lost = lost > lost_samples ? lost : lost_samples;
    if (lost)
        sonde_buf_printf(text, "dropped: %llu records that perf could not write",
                         (unsigned long long)lost);
    else
        sonde_buf_puts(text, "dropped: none");
}

static void add_file(const struct building *building, struct sonde_buf *text) {
    const struct perf_file_notes *notes = perf_file_notes(building->code->file);
    if (notes->is_truncated)
        sonde_buf_puts(text, "file: it ends early, because perf record was killed or the file was "
                             "cut; what it has is shown");
    else if (notes->is_broken)
        sonde_buf_puts(text, "file: damaged; what comes before the damage is shown");
}

static void add_skipped(const struct building *building, struct sonde_buf *text) {
    const struct perf_file_notes *notes = perf_file_notes(building->code->file);
    if (notes->invalid || notes->unknown)
        sonde_buf_printf(text, "skipped: %llu damaged records, %llu samples of unknown events",
                         (unsigned long long)notes->invalid, (unsigned long long)notes->unknown);
}

static void add_late(const struct building *building, struct sonde_buf *text) {
    const struct perf_file_notes *notes = perf_file_notes(building->code->file);
    if (notes->late)
        sonde_buf_printf(text, "order: %llu records came late, so frames near them may be wrong",
                         (unsigned long long)notes->late);
}

static void add_other(const struct building *building, struct sonde_buf *text) {
    if (building->counts->other_samples)
        sonde_buf_printf(text, "truncated stacks: %llu, because there are too many different ones",
                         (unsigned long long)building->counts->other_samples);
}

static void add_unchecked(const struct building *building, struct sonde_buf *text) {
    if (building->code->unchecked)
        sonde_buf_printf(text,
                         "files: %u are not known to be those that were recorded; if they have "
                         "changed, names are wrong",
                         building->code->unchecked);
}

static void add_cuts(const struct building *building, struct sonde_buf *text) {
    static const char *const reasons[STACK_ENDS] = {
        [STACK_END_NO_TABLE] = "no unwind table", [STACK_END_RULE] = "complex rule",
        [STACK_END_BAD_STACK] = "bad stack",      [STACK_END_SHORT] = "stack copy too short",
        [STACK_END_GONE] = "no memory map",
    };
    const char *separator = "cut stacks: ";
    for (int i = 0; i < STACK_ENDS; i++) {
        if (!reasons[i] || building->counts->ends[i] == 0)
            continue;
        sonde_buf_printf(text, "%s%s %llu", separator, reasons[i],
                         (unsigned long long)building->counts->ends[i]);
        separator = ", ";
    }
}

static sonde_err add_comments(const struct building *building) {
    static void (*const rows[])(const struct building *, struct sonde_buf *) = {
        add_target, add_source, add_drops, add_file,     add_skipped,
        add_late,   add_other,  add_cuts,  add_unchecked};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !err; i++) {
        struct sonde_buf text = {0};
        rows[i](building, &text);
        err = text.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
        if (!err && text.len > 0)
            err = sonde_profile_add_comment(building->profile, text.data);
        sonde_buf_finish(&text);
    }
    return err;
}

/* ---- the whole ---- */

static sonde_err build(struct building *building) {
    sonde_err err = create_profile(building);
    if (!err)
        err = intern_keys(building);
    if (!err)
        err = collect_frames(building);
    if (!err)
        err = load_names(building);
    if (!err)
        err = report_frames_locate(&building->frames, building->code->symbols, building->profile);
    for (uint32_t i = 0; i < building->counts->count && !err; i++)
        err = add_sample(building, &building->counts->items[i]);
    return err ? err : add_comments(building);
}

sonde_err recorded_profile(const struct recorded_counts *counts, const struct recorded_code *code,
                           const struct recorded_processes *processes,
                           struct sonde_profile **profile, struct sonde_diag *diag) {
    struct building building = {.counts = counts, .code = code, .processes = processes};
    const struct recorded_process *first = first_sampled(processes);
    report_frames_init(&building.frames);
    building.frames.executable = processes->sampled == 1 && first ? first->name : "";
    sonde_err err = build(&building);
    report_frames_finish(&building.frames);
    free(building.frame_of_node);
    if (err) {
        sonde_profile_destroy(building.profile);
        building.profile = NULL;
        err = sonde_fail(diag, err,
                         err == SONDE_TOO_LARGE ? "its profile needs more than 1 GiB of memory"
                                                : "out of memory");
    }
    *profile = building.profile;
    return err;
}
