/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/delivery.h"

#include "service/rpc/otlp/event.h"
#include "service/rpc/otlp/identity.h"
#include "service/rpc/otlp/process.h"
#include "service/store/id_set.h"
#include "service/store/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One profile on its way into windows. */
struct conversion {
    struct otlp_delivery *delivery;
    const otlp_dictionary *dictionary;
    const otlp_profile *profile;
    const struct otlp_resource *resource;
    struct otlp_event event;
    struct otlp_identity identity;
    int64_t begin_unix_s;
    uint32_t length_s;
    struct otlp_processes processes;
    struct id_set pairs;         /* (process, index of a stack) */
    struct store_list stack_ids; /* uint64_t, by number in pairs */
    struct store_list rows;
};

/* ---- Rows ---- */

static sonde_err add_stack(struct conversion *conversion, const char *service, int32_t index,
                           uint64_t *id, uint32_t *depth, struct sonde_diag *diag) {
    struct otlp_delivery *delivery = conversion->delivery;
    const uint64_t *frames;
    sonde_err err = otlp_frames_stack(&delivery->frames, index, &frames, depth, diag);
    if (!err)
        err = otlp_frames_charge(&delivery->frames, *depth, diag);
    if (err)
        return err;
    *id = store_stack_id(service, frames, *depth);
    struct store_stack *stack = store_list_add(&delivery->stacks);
    if (!stack)
        return SONDE_OUT_OF_MEMORY;
    *stack = (struct store_stack){
        .service = service, .id = *id, .frames = frames, .frame_count = *depth};
    return SONDE_OK;
}

/* The id of a stack in the service of the row's process: computed once for both. */
static sonde_err find_stack(struct conversion *conversion, int32_t index, struct otlp_row *row,
                            struct sonde_diag *diag) {
    const char *service = otlp_process_at(&conversion->processes, row->process)->service;
    uint32_t known = conversion->pairs.count, number, depth;
    sonde_err err =
        id_set_add(&conversion->pairs, row->process, (uint64_t)(uint32_t)index, &number);
    if (!err && number < known) {
        row->stack = ((const uint64_t *)(const void *)conversion->stack_ids.items)[number];
        return SONDE_OK;
    }
    uint64_t *id = err ? NULL : store_list_add(&conversion->stack_ids);
    if (!id)
        return SONDE_OUT_OF_MEMORY;
    err = add_stack(conversion, service, index, id, &depth, diag);
    row->stack = *id;
    return err;
}

static sonde_err add_sample(struct conversion *conversion, const otlp_sample *sample,
                            struct sonde_diag *diag) {
    uint64_t events;
    int64_t value = otlp_event_value(&conversion->event, sample, &events);
    if (value <= 0)
        return SONDE_OK;
    struct otlp_row *row = store_list_add(&conversion->rows);
    sonde_err err =
        row ? otlp_process_find(&conversion->processes, sample, row, diag) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = find_stack(conversion, sample->stack_index, row, diag);
    if (err)
        return err;
    row->value = value;
    const otlp_stack *stack = otlp_stack_at(conversion->dictionary, sample->stack_index);
    struct otlp_process *process = otlp_process_at(&conversion->processes, row->process);
    process->samples += events;
    process->truncated += stack && stack->n_location_indices > STORE_MAX_DEPTH ? events : 0;
    return SONDE_OK;
}

static int by_place(const void *left, const void *right) {
    const struct otlp_row *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Sorted by process; rows of one stack and thread become one. */
static void merge_rows(struct store_list *list) {
    struct otlp_row *rows = (void *)list->items;
    size_t count = 0;
    if (list->count > 1)
        qsort(rows, list->count, sizeof *rows, by_place);
    for (size_t i = 0; i < list->count; i++) {
        if (count == 0 || by_place(&rows[count - 1], &rows[i]) != 0)
            rows[count++] = rows[i];
        else if (__builtin_add_overflow(rows[count - 1].value, rows[i].value,
                                        &rows[count - 1].value))
            rows[count - 1].value = INT64_MAX;
    }
    list->count = count;
}

/* ---- Windows ---- */

static sonde_err set_columns(struct sonde_arena *arena, const struct otlp_process *process,
                             const struct otlp_row *rows, size_t count,
                             struct store_window *window) {
    uint64_t *stack = sonde_arena_alloc(arena, (count + 1) * sizeof *stack);
    uint8_t *thread = sonde_arena_alloc(arena, count + 1);
    int64_t *value = sonde_arena_alloc(arena, (count + 1) * sizeof *value);
    const char **threads = sonde_arena_alloc(arena, (process->thread_count + 1) * sizeof *threads);
    if (!stack || !thread || !value || !threads)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        stack[i] = rows[i].stack;
        thread[i] = rows[i].thread;
        value[i] = rows[i].value;
    }
    memcpy(threads, process->threads, process->thread_count * sizeof *threads);
    window->stack = stack;
    window->thread = thread;
    window->value = value;
    window->row_count = (uint32_t)count;
    window->threads = threads;
    window->thread_count = process->thread_count;
    return SONDE_OK;
}

static sonde_err add_window(struct conversion *conversion, uint32_t number,
                            const struct otlp_row *rows, size_t count) {
    struct otlp_delivery *delivery = conversion->delivery;
    const struct otlp_process *process = otlp_process_at(&conversion->processes, number);
    const struct otlp_resource *resource = conversion->resource;
    struct store_window *window = store_list_add(&delivery->windows);
    const char *instance = otlp_instance(resource->host, process->service, process->pid,
                                         resource->instance_id, &delivery->arena);
    if (!window || !instance)
        return SONDE_OUT_OF_MEMORY;
    *window = (struct store_window){
        .source = conversion->identity.source,
        .seq = conversion->identity.seq + number,
        .event = conversion->event.name,
        .service = process->service,
        .host = resource->host,
        .instance = instance,
        .pid = process->pid > 0 && process->pid <= INT32_MAX ? (uint32_t)process->pid : 0,
        .begin_unix_s = conversion->begin_unix_s,
        .length_s = conversion->length_s,
        .period_ns = conversion->event.period_ns,
        .weight = 1,
        .clock = "otlp",
        .samples = process->samples,
        .truncated = process->truncated,
        .labels = resource->labels,
        .label_count = resource->label_count,
    };
    return set_columns(&delivery->arena, process, rows, count, window);
}

static sonde_err add_windows(struct conversion *conversion) {
    const struct otlp_row *rows = (const void *)conversion->rows.items;
    size_t count = conversion->rows.count;
    sonde_err err = SONDE_OK;
    for (size_t from = 0, to; from < count && !err; from = to) {
        for (to = from + 1; to < count && rows[to].process == rows[from].process;)
            to++;
        err = add_window(conversion, rows[from].process, &rows[from], to - from);
    }
    return err;
}

/* ---- Profiles ---- */

static sonde_err set_time(struct conversion *conversion, int64_t now_unix_ns,
                          struct sonde_diag *diag) {
    const otlp_profile *profile = conversion->profile;
    const uint64_t second = 1000000000;
    uint64_t begin = profile->time_unix_nano ? profile->time_unix_nano : (uint64_t)now_unix_ns;
    if (profile->duration_nano > STORE_MAX_LENGTH * second)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "duration_nano is %llu; history takes profiles of up to %d s",
                          (unsigned long long)profile->duration_nano, STORE_MAX_LENGTH);
    if (begin / second > STORE_LAST_TIME)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "time_unix_nano is %llu, which is after the year 2100",
                          (unsigned long long)begin);
    uint64_t length = (profile->duration_nano + second / 2) / second;
    conversion->begin_unix_s = (int64_t)((begin + second / 2) / second);
    conversion->length_s = length < 1 ? 1 : (uint32_t)length;
    return SONDE_OK;
}

static sonde_err convert(struct conversion *conversion, struct sonde_diag *diag) {
    const otlp_profile *profile = conversion->profile;
    sonde_err err = otlp_identify(conversion->resource, profile, &conversion->identity);
    for (size_t i = 0; i < profile->n_samples && !err; i++)
        err = add_sample(conversion, profile->samples[i], diag);
    if (err)
        return err;
    merge_rows(&conversion->rows);
    return add_windows(conversion);
}

static void note_rejection(struct otlp_delivery *delivery, const struct sonde_diag *why) {
    if (delivery->rejected++ == 0)
        snprintf(delivery->rejection, sizeof delivery->rejection, "%s", why->text);
}

static sonde_err read_profile(struct otlp_delivery *delivery, const otlp_dictionary *dictionary,
                              const struct otlp_resource *resource, const otlp_profile *profile,
                              int64_t now_unix_ns, struct sonde_diag *diag) {
    struct conversion conversion = {
        .delivery = delivery, .dictionary = dictionary, .profile = profile, .resource = resource};
    struct sonde_diag why = {0};
    sonde_err err = otlp_event_of(dictionary, profile, &delivery->arena, &conversion.event, &why);
    if (!err)
        err = set_time(&conversion, now_unix_ns, &why);
    if (err == SONDE_INVALID_ARGUMENT) {
        note_rejection(delivery, &why);
        return SONDE_OK;
    }
    if (err)
        return err;
    conversion.rows.item_size = sizeof(struct otlp_row);
    conversion.stack_ids.item_size = sizeof(uint64_t);
    id_set_init(&conversion.pairs);
    otlp_processes_init(&conversion.processes, dictionary, resource, &delivery->arena);
    err = convert(&conversion, diag);
    otlp_processes_finish(&conversion.processes);
    id_set_finish(&conversion.pairs);
    free(conversion.stack_ids.items);
    free(conversion.rows.items);
    return err;
}

static sonde_err read_resource(struct otlp_delivery *delivery, const otlp_dictionary *dictionary,
                               const otlp_resource_profiles *from, int64_t now_unix_ns,
                               struct sonde_diag *diag) {
    struct otlp_resource *resource = sonde_arena_alloc(&delivery->arena, sizeof *resource);
    sonde_err err = resource
                        ? otlp_resource_read(dictionary, from->resource, &delivery->arena, resource)
                        : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->n_scope_profiles && !err; i++)
        for (size_t k = 0; k < from->scope_profiles[i]->n_profiles && !err; k++)
            err = read_profile(delivery, dictionary, resource, from->scope_profiles[i]->profiles[k],
                               now_unix_ns, diag);
    return err;
}

static void set_batch(struct otlp_delivery *delivery) {
    delivery->batch = (struct store_batch){
        .windows = (const void *)delivery->windows.items,
        .window_count = delivery->windows.count,
        .stacks = (const void *)delivery->stacks.items,
        .stack_count = delivery->stacks.count,
        .frames = (const void *)delivery->frames.added.items,
        .frame_count = delivery->frames.added.count,
    };
}

sonde_err otlp_delivery_read(const otlp_request *request, int64_t now_unix_ns,
                             struct otlp_delivery *delivery, struct sonde_diag *diag) {
    static const otlp_dictionary none = OTLP_DICTIONARY_INIT;
    const otlp_dictionary *dictionary = request->dictionary ? request->dictionary : &none;
    *delivery = (struct otlp_delivery){.rejected = 0};
    delivery->windows.item_size = sizeof(struct store_window);
    delivery->stacks.item_size = sizeof(struct store_stack);
    sonde_err err = otlp_frames_init(&delivery->frames, dictionary, &delivery->arena);
    for (size_t i = 0; i < request->n_resource_profiles && !err; i++)
        err = read_resource(delivery, dictionary, request->resource_profiles[i], now_unix_ns, diag);
    if (err)
        return err;
    set_batch(delivery);
    return store_check(&delivery->batch, diag);
}

void otlp_delivery_finish(struct otlp_delivery *delivery) {
    otlp_frames_finish(&delivery->frames);
    free(delivery->windows.items);
    free(delivery->stacks.items);
    sonde_arena_finish(&delivery->arena);
}
