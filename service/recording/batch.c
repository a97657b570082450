/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/batch.h"

#include "api/profile/event.h"
#include "service/recording/profile_ids.h"
#include "service/store/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct batch_row {
    uint64_t stack;
    uint8_t thread;
    int64_t value;
};

struct conversion {
    struct batch *batch;
    const struct record *record;
    const struct profile_ids *ids;
    size_t type; /* of the profile's values */
    const char *threads[STORE_MAX_THREADS];
    uint32_t thread_count;
    struct batch_row *rows;
    uint32_t row_count;
};

void batch_init(struct batch *batch, uint64_t source, uint32_t epoch, const char *host) {
    *batch = (struct batch){.source = source, .epoch = epoch, .seq = 1};
    snprintf(batch->host, sizeof batch->host, "%s", host);
    known_init(&batch->stacks, KNOWN_MAX);
    known_init(&batch->frames, KNOWN_MAX);
    batch->windows.item_size = sizeof(struct store_window);
    batch->new_stacks.item_size = sizeof(struct store_stack);
    batch->new_frames.item_size = sizeof(struct store_frame);
    batch->totals.item_size = sizeof(struct store_total);
}

void batch_finish(struct batch *batch) {
    known_finish(&batch->stacks);
    known_finish(&batch->frames);
    free(batch->windows.items);
    free(batch->new_stacks.items);
    free(batch->new_frames.items);
    free(batch->totals.items);
    sonde_arena_finish(&batch->arena);
    memset(batch, 0, sizeof *batch);
}

void batch_clear(struct batch *batch) {
    batch->windows.count = batch->new_stacks.count = 0;
    batch->new_frames.count = batch->totals.count = 0;
    sonde_arena_finish(&batch->arena);
}

void batch_forget(struct batch *batch) {
    known_clear(&batch->stacks);
    known_clear(&batch->frames);
}

struct store_batch batch_get(const struct batch *batch) {
    return (struct store_batch){
        .windows = (const struct store_window *)(const void *)batch->windows.items,
        .window_count = batch->windows.count,
        .stacks = (const struct store_stack *)(const void *)batch->new_stacks.items,
        .stack_count = batch->new_stacks.count,
        .frames = (const struct store_frame *)(const void *)batch->new_frames.items,
        .frame_count = batch->new_frames.count,
        .totals = (const struct store_total *)(const void *)batch->totals.items,
        .total_count = batch->totals.count,
    };
}

/* ---- Rows ---- */

/* Names beyond the limit share the last number. */
static uint8_t thread_number(struct conversion *conversion, const char *name) {
    for (uint32_t i = 0; i < conversion->thread_count; i++)
        if (strcmp(conversion->threads[i], name) == 0)
            return (uint8_t)i;
    if (conversion->thread_count == STORE_MAX_THREADS)
        return STORE_MAX_THREADS - 1;
    if (conversion->thread_count == STORE_MAX_THREADS - 1)
        name = "(other threads)";
    conversion->threads[conversion->thread_count] = name;
    return (uint8_t)conversion->thread_count++;
}

static int by_stack(const void *a, const void *b) {
    const struct batch_row *left = a, *right = b;
    if (left->stack != right->stack)
        return left->stack < right->stack ? -1 : 1;
    return (left->thread > right->thread) - (left->thread < right->thread);
}

static void merge_rows(struct conversion *conversion) {
    struct batch_row *rows = conversion->rows;
    uint32_t count = 0;
    if (conversion->row_count > 1)
        qsort(rows, conversion->row_count, sizeof *rows, by_stack);
    for (uint32_t i = 0; i < conversion->row_count; i++) {
        if (count > 0 && by_stack(&rows[count - 1], &rows[i]) == 0)
            rows[count - 1].value += rows[i].value;
        else
            rows[count++] = rows[i];
    }
    conversion->row_count = count;
}

/* "" for the main thread, as in totals: its own name is the program's. */
static const char *thread_name(const struct conversion *conversion,
                               const struct sonde_sample *sample) {
    const struct sonde_profile *profile = conversion->record->profile;
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct sonde_label *label = &sample->labels[i];
        if (!label->str && label->num == conversion->record->target->pid &&
            strcmp(sonde_profile_text(profile, label->key), "tid") == 0)
            return "";
    }
    return sonde_sample_label(profile, sample, "thread");
}

static sonde_err collect_rows(struct conversion *conversion) {
    const struct sonde_profile *profile = conversion->record->profile;
    size_t count = sonde_profile_sample_count(profile);
    conversion->rows = malloc((count ? count : 1) * sizeof *conversion->rows);
    if (!conversion->rows)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        int64_t value = sample.values[conversion->type];
        if (value <= 0)
            continue;
        const char *thread = thread_name(conversion, &sample);
        conversion->rows[conversion->row_count++] = (struct batch_row){
            conversion->ids->stacks[i], thread_number(conversion, thread), value};
    }
    merge_rows(conversion);
    return SONDE_OK;
}

/* ---- Windows ---- */

static int64_t round_s(int64_t unix_ns) {
    return (unix_ns + 500000000) / 1000000000;
}

static void set_time(struct store_window *window, int64_t begin_unix_ns, int64_t end_unix_ns) {
    int64_t length_s = round_s(end_unix_ns) - round_s(begin_unix_ns);
    window->begin_unix_s = round_s(begin_unix_ns);
    window->length_s = length_s < 1                  ? 1
                       : length_s > STORE_MAX_LENGTH ? STORE_MAX_LENGTH
                                                     : (uint32_t)length_s;
}

/* Copies the rows as columns. */
static sonde_err set_rows(struct conversion *conversion, struct store_window *window) {
    struct sonde_arena *arena = &conversion->batch->arena;
    size_t count = conversion->row_count ? conversion->row_count : 1;
    uint64_t *stack = sonde_arena_alloc(arena, count * sizeof *stack);
    uint8_t *thread = sonde_arena_alloc(arena, count * sizeof *thread);
    int64_t *value = sonde_arena_alloc(arena, count * sizeof *value);
    const char **threads =
        sonde_arena_alloc(arena, (conversion->thread_count + 1) * sizeof *threads);
    if (!stack || !thread || !value || !threads)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < conversion->row_count; i++) {
        stack[i] = conversion->rows[i].stack;
        thread[i] = conversion->rows[i].thread;
        value[i] = conversion->rows[i].value;
    }
    memcpy(threads, conversion->threads, conversion->thread_count * sizeof *threads);
    window->stack = stack;
    window->thread = thread;
    window->value = value;
    window->row_count = conversion->row_count;
    window->threads = threads;
    window->thread_count = conversion->thread_count;
    return SONDE_OK;
}

static sonde_err add_window(struct conversion *conversion, const struct labels *labels,
                            uint64_t lost) {
    struct batch *batch = conversion->batch;
    const struct record *record = conversion->record;
    struct store_window *window = store_list_add(&batch->windows);
    if (!window)
        return SONDE_OUT_OF_MEMORY;
    *window = (struct store_window){
        .source = batch->source,
        .epoch = batch->epoch,
        .seq = batch->seq,
        .event = sonde_events[record->event].name,
        .service = record->target->name,
        .host = batch->host,
        .instance = record->target->uuid,
        .pid = (uint32_t)record->target->pid,
        .start_unix_ns = record->target->start_unix_ns,
        .period_ns = record->period_ns,
        .weight = record->weight > 0 ? record->weight : 1,
        .clock = record->clock,
        .samples = record->samples,
        .dropped = record->dropped + lost,
        .truncated = record->truncated,
        .cpu_from_ns = record->cpu_from_ns,
        .cpu_until_ns = record->cpu_until_ns,
        .labels = labels->items,
        .label_count = labels->count,
    };
    set_time(window, record->begin_unix_ns, record->end_unix_ns);
    sonde_err err = set_rows(conversion, window);
    if (err)
        batch->windows.count--;
    else
        batch->seq++;
    return err;
}

/* ---- Records ---- */

static sonde_err convert(struct conversion *conversion, const struct labels *labels,
                         uint64_t lost) {
    const struct record *record = conversion->record;
    const struct sonde_event *event = &sonde_events[record->event];
    conversion->type = sonde_profile_find_type(record->profile, event->amount.type.type);
    if (conversion->type == SONDE_PROFILE_NO_TYPE)
        return SONDE_OK;
    sonde_err err = collect_rows(conversion);
    if (!err)
        err = add_window(conversion, labels, lost);
    free(conversion->rows);
    return err;
}

sonde_err batch_add(struct batch *batch, const struct record *record, uint64_t lost,
                    uint32_t *labels_refused) {
    struct labels *labels = sonde_arena_alloc(&batch->arena, sizeof *labels);
    struct profile_ids ids = {0};
    struct conversion conversion = {.batch = batch, .record = record, .ids = &ids};
    if (!labels)
        return SONDE_OUT_OF_MEMORY;
    labels_of_record(record, &batch->arena, labels);
    if (labels_refused)
        *labels_refused = labels->refused;
    size_t stacks = batch->new_stacks.count, frames = batch->new_frames.count;
    size_t windows = batch->windows.count;
    sonde_err err = profile_ids_find(batch, record, &ids);
    if (!err)
        err = convert(&conversion, labels, lost);
    profile_ids_finish(&ids);
    if (err) {
        batch->new_stacks.count = stacks;
        batch->new_frames.count = frames;
        batch->windows.count = windows;
        batch_forget(batch);
    }
    return err;
}

sonde_err batch_add_totals(struct batch *batch, const struct totals_row *rows, size_t count,
                           int64_t begin_unix_ns, int64_t end_unix_ns) {
    struct store_window when = {0};
    set_time(&when, begin_unix_ns, end_unix_ns);
    uint64_t seq = batch->seq++;
    for (size_t i = 0; i < count; i++) {
        struct store_total *total = store_list_add(&batch->totals);
        struct totals_row *copy = sonde_arena_alloc(&batch->arena, sizeof *copy);
        if (!total || !copy)
            return SONDE_OUT_OF_MEMORY;
        *copy = rows[i];
        *total = (struct store_total){.source = batch->source,
                                      .seq = seq,
                                      .epoch = batch->epoch,
                                      .host = batch->host,
                                      .begin_unix_s = when.begin_unix_s,
                                      .length_s = when.length_s,
                                      .process = copy->process,
                                      .thread = copy->thread,
                                      .cpu_ns = copy->cpu_ns};
    }
    return SONDE_OK;
}
