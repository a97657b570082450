/* SPDX-License-Identifier: Apache-2.0
 *
 * From rows to samples:
 *
 *     rows -> distinct (service, stack) -> stacks -> distinct frames -> locations -> samples
 *
 * Each stack and each frame is fetched once, however many rows name it. */
#include "service/store/profile_rows.h"

#include "api/profile/event.h"
#include "service/store/id_set.h"
#include "service/store/profile_frames.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    struct store *store;
    const struct store_query *query;
    const struct store_merge *merge;
    struct sonde_profile *profile;
    struct sonde_diag *diag;
    struct sonde_arena arena;           /* stacks and frames */
    struct id_set stack_ids, frame_ids; /* groups of stacks: indexes into merge->services */
    uint32_t *stack_of_row;             /* numbers in stack_ids */
    const struct store_stack **stacks;  /* by number; NULL = unknown */
    struct profile_frames frames;       /* by number in frame_ids */
    uint32_t *locations;                /* of all stacks, leaf first: frames' numbers, then ids */
    uint32_t **locations_of;            /* of each stack */
    size_t location_count;
    bool are_adopted;                 /* the locations belong to the profile */
    uint32_t thread_key, service_key; /* string ids */
    uint64_t unknown_stacks;
};

static sonde_err collect_stacks(struct rows *rows) {
    const struct store_merge *merge = rows->merge;
    rows->stack_of_row = calloc(merge->row_count + 1, sizeof *rows->stack_of_row);
    sonde_err err = rows->stack_of_row ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < merge->row_count && !err; i++)
        err = id_set_add(&rows->stack_ids, merge->rows[i].service, merge->rows[i].stack,
                         &rows->stack_of_row[i]);
    return err;
}

/* Orders the ids by service; first[s] is the index of the first one of service s. */
static void sort_by_service(const struct rows *rows, uint64_t *ids, size_t *first) {
    const struct id_set *set = &rows->stack_ids;
    size_t services = rows->merge->service_count, sum = 0;
    for (uint32_t i = 0; i < set->count; i++)
        first[set->groups[i] + 1]++;
    for (size_t s = 0; s <= services; s++)
        first[s] = sum += first[s];
    for (uint32_t i = 0; i < set->count; i++)
        ids[first[set->groups[i]]++] = set->ids[i];
    memmove(first + 1, first, services * sizeof *first);
    first[0] = 0;
}

static sonde_err fetch_service(struct rows *rows, uint32_t service, const uint64_t *ids,
                               size_t count) {
    struct store_stack *stacks;
    size_t found = 0;
    if (count == 0)
        return SONDE_OK;
    sonde_err err = store_stop_check(rows->query->stop, rows->diag);
    if (!err)
        err =
            rows->store->ops->stacks(rows->store, rows->merge->services[service], ids, count,
                                     rows->query->stop, &rows->arena, &stacks, &found, rows->diag);
    for (size_t i = 0; i < found && !err; i++) {
        uint32_t number = id_set_find(&rows->stack_ids, service, stacks[i].id);
        if (number != HASH_INDEX_NONE)
            rows->stacks[number] = &stacks[i];
    }
    return err;
}

static sonde_err fetch_stacks(struct rows *rows) {
    size_t services = rows->merge->service_count;
    rows->stacks = calloc(rows->stack_ids.count + 1, sizeof(struct store_stack *));
    uint64_t *ids = calloc(rows->stack_ids.count + 1, sizeof *ids);
    size_t *first = calloc(services + 1, sizeof *first);
    sonde_err err = rows->stacks && ids && first ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err)
        sort_by_service(rows, ids, first);
    for (uint32_t s = 0; s < services && !err; s++)
        err = fetch_service(rows, s, ids + first[s], first[s + 1] - first[s]);
    free(ids);
    free(first);
    return err;
}

static uint32_t depth_of(const struct store_stack *stack) {
    return stack->frame_count < STORE_MAX_DEPTH ? stack->frame_count : STORE_MAX_DEPTH;
}

/* Puts the frames' numbers where their locations will be. */
static sonde_err collect_frames(struct rows *rows) {
    size_t total = 0;
    for (uint32_t i = 0; i < rows->stack_ids.count; i++)
        total += rows->stacks[i] ? depth_of(rows->stacks[i]) : 0;
    rows->locations = malloc((total + 1) * sizeof *rows->locations);
    rows->locations_of = calloc(rows->stack_ids.count + 1, sizeof(uint32_t *));
    sonde_err err = rows->locations && rows->locations_of ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < rows->stack_ids.count && !err; i++) {
        const struct store_stack *stack = rows->stacks[i];
        rows->locations_of[i] = rows->locations + rows->location_count;
        for (uint32_t k = 0; stack && k < depth_of(stack) && !err; k++)
            err = id_set_add(&rows->frame_ids, 0, stack->frames[k],
                             &rows->locations[rows->location_count++]);
    }
    return err;
}

static sonde_err fetch_frames(struct rows *rows) {
    struct store_frame *frames;
    size_t found = 0;
    sonde_err err = collect_frames(rows);
    if (!err)
        err = profile_frames_init(&rows->frames, rows->frame_ids.count);
    if (!err)
        err = store_stop_check(rows->query->stop, rows->diag);
    if (!err && rows->frame_ids.count > 0)
        err =
            rows->store->ops->frames(rows->store, rows->frame_ids.ids, rows->frame_ids.count,
                                     rows->query->stop, &rows->arena, &frames, &found, rows->diag);
    for (size_t i = 0; i < found && !err; i++) {
        uint32_t number = id_set_find(&rows->frame_ids, 0, frames[i].id);
        if (number != HASH_INDEX_NONE)
            rows->frames.frames[number] = &frames[i];
    }
    return err;
}

/* Stacks without frames, or with frames that the store does not have. */
static uint64_t count_unknown(const struct rows *rows) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < rows->stack_ids.count; i++) {
        const struct store_stack *stack = rows->stacks[i];
        bool is_known = stack != NULL;
        for (uint32_t k = 0; is_known && k < depth_of(stack); k++)
            is_known = rows->frames.frames[rows->locations_of[i][k]];
        count += !is_known;
    }
    return count;
}

/* Replaces the frames' numbers by locations, which then belong to the profile. */
static sonde_err locate(struct rows *rows) {
    sonde_err err = profile_frames_locate(&rows->frames, rows->profile);
    if (err)
        return err;
    rows->unknown_stacks = count_unknown(rows);
    for (size_t i = 0; i < rows->location_count; i++)
        rows->locations[i] = rows->frames.locations[rows->locations[i]];
    err = sonde_profile_adopt(rows->profile, rows->locations,
                              rows->location_count * sizeof *rows->locations);
    rows->are_adopted = !err;
    return err;
}

static sonde_err add_label(struct rows *rows, uint32_t key, const char *text,
                           struct sonde_sample *sample, struct sonde_label *labels) {
    if (!text[0])
        return SONDE_OK;
    labels[sample->label_count].key = key;
    return sonde_profile_string(rows->profile, text, strlen(text),
                                &labels[sample->label_count++].str);
}

/* The main thread is named after the service. Memory has no threads. */
static const char *thread_label(const struct rows *rows, const struct store_row *row) {
    const char *name = rows->merge->threads[row->thread];
    bool has_threads = strcmp(sonde_event_unit(rows->query->event), "nanoseconds") == 0;
    return name[0] || !has_threads ? name : rows->merge->services[row->service];
}

/* Number of periods, rounded. */
static int64_t sample_count(int64_t value, uint64_t period_ns) {
    if (period_ns == 0 || period_ns > INT64_MAX / 2)
        return 0;
    int64_t period = (int64_t)period_ns, rest = value % period;
    return value / period + (2 * rest >= period);
}

/* All unknown stacks of a thread are one sample. Known stacks are not looked up, because rows
 * differ; those of a thread that is named like the main thread may be there twice. */
static sonde_err add_stack(struct rows *rows, uint32_t number, struct sonde_sample *sample) {
    const struct store_stack *stack = rows->stacks[number];
    uint32_t note;
    if (stack) {
        sample->locations = rows->locations_of[number];
        sample->location_count = depth_of(stack);
        return sonde_profile_append_sample(rows->profile, sample);
    }
    sonde_err err = profile_frames_note(rows->profile, "[unknown stack]", &note);
    sample->locations = &note;
    sample->location_count = 1;
    return err ? err : sonde_profile_add_sample(rows->profile, sample);
}

static sonde_err add_sample(struct rows *rows, const struct store_row *row, uint32_t number) {
    const struct store_merge *merge = rows->merge;
    struct sonde_label labels[2] = {{0}};
    int64_t values[] = {sample_count(row->value, merge->period_ns), row->value};
    size_t types = sonde_profile_type_count(rows->profile);
    struct sonde_sample sample = {.labels = labels, .values = values + 2 - types};
    sonde_err err = add_label(rows, rows->thread_key, thread_label(rows, row), &sample, labels);
    if (!err && rows->service_key)
        err = add_label(rows, rows->service_key, merge->services[row->service], &sample, labels);
    return err ? err : add_stack(rows, number, &sample);
}

static sonde_err add_samples(struct rows *rows) {
    bool names_service = rows->query->service && rows->query->service[0];
    sonde_err err = sonde_profile_string(rows->profile, "thread", 6, &rows->thread_key);
    if (!err && !names_service)
        err = sonde_profile_string(rows->profile, "service", 7, &rows->service_key);
    for (size_t i = 0; i < rows->merge->row_count && !err; i++)
        err = add_sample(rows, &rows->merge->rows[i], rows->stack_of_row[i]);
    return err;
}

sonde_err profile_rows_add(struct store *store, const struct store_query *query,
                           const struct store_merge *merge, struct sonde_profile *profile,
                           uint64_t *unknown_stacks, struct sonde_diag *diag) {
    struct rows rows = {
        .store = store, .query = query, .merge = merge, .profile = profile, .diag = diag};
    id_set_init(&rows.stack_ids);
    id_set_init(&rows.frame_ids);
    sonde_err err = collect_stacks(&rows);
    if (!err)
        err = fetch_stacks(&rows);
    if (!err)
        err = fetch_frames(&rows);
    if (!err)
        err = locate(&rows);
    if (!err)
        err = add_samples(&rows);
    *unknown_stacks = rows.unknown_stacks;
    id_set_finish(&rows.stack_ids);
    id_set_finish(&rows.frame_ids);
    profile_frames_finish(&rows.frames);
    free(rows.stack_of_row);
    free(rows.stacks);
    free(rows.locations_of);
    if (!rows.are_adopted)
        free(rows.locations);
    sonde_arena_finish(&rows.arena);
    return err;
}
