/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/delivery.h"

#include "service/store/ids.h"

/* ---- Windows ---- */

static sonde_err read_threads(const Sonde__V1__StoredWindow *from, struct sonde_arena *arena,
                              struct store_window *window, struct sonde_diag *diag) {
    uint8_t *threads = sonde_arena_alloc(arena, from->n_thread + 1);
    if (!threads)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->n_thread; i++) {
        if (from->thread[i] >= from->n_threads)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "thread: index %u, but the window has %zu threads", from->thread[i],
                              from->n_threads);
        threads[i] = (uint8_t)from->thread[i];
    }
    window->thread = threads;
    return SONDE_OK;
}

static sonde_err read_labels(const Sonde__V1__StoredWindow *from, struct sonde_arena *arena,
                             struct store_window *window) {
    struct store_label *labels = sonde_arena_alloc(arena, (from->n_labels + 1) * sizeof *labels);
    if (!labels)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->n_labels; i++)
        labels[i] = (struct store_label){from->labels[i]->name, from->labels[i]->value};
    window->labels = labels;
    window->label_count = (uint32_t)from->n_labels;
    return SONDE_OK;
}

static sonde_err check_counts(const Sonde__V1__StoredWindow *from, struct sonde_diag *diag) {
    if (from->n_threads > STORE_MAX_THREADS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "threads: %zu are too many; at most %d",
                          from->n_threads, STORE_MAX_THREADS);
    if (from->n_stack != from->n_thread || from->n_stack != from->n_value)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "stack, thread and value must have one value per row, not %zu, %zu, %zu",
                          from->n_stack, from->n_thread, from->n_value);
    return SONDE_OK;
}

static sonde_err read_window(const Sonde__V1__StoredWindow *from, struct sonde_arena *arena,
                             struct store_window *window, struct sonde_diag *diag) {
    *window = (struct store_window){
        .source = from->source,
        .seq = from->seq,
        .epoch = from->epoch,
        .event = from->event,
        .service = from->service,
        .host = from->host,
        .instance = from->instance,
        .pid = from->pid,
        .start_unix_ns = from->start_unix_ns,
        .begin_unix_s = from->begin_unix_s,
        .length_s = from->length_s,
        .period_ns = from->period_ns,
        .weight = from->weight == 0 ? 1 : from->weight,
        .clock = from->clock,
        .samples = from->samples,
        .dropped = from->dropped,
        .truncated = from->truncated,
        .cpu_from_ns = from->cpu_from_ns,
        .cpu_until_ns = from->cpu_until_ns,
        .threads = (const char *const *)from->threads,
        .thread_count = (uint32_t)from->n_threads,
        .stack = from->stack,
        .value = from->value,
        .row_count = (uint32_t)from->n_stack,
    };
    sonde_err err = check_counts(from, diag);
    if (!err)
        err = read_labels(from, arena, window);
    return err ? err : read_threads(from, arena, window, diag);
}

static sonde_err read_windows(const Sonde__V1__WriteRequest *request, struct sonde_arena *arena,
                              struct store_batch *batch, struct sonde_diag *diag) {
    size_t count = request->n_windows;
    struct store_window *windows = sonde_arena_alloc(arena, (count + 1) * sizeof *windows);
    sonde_err err = windows ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++)
        err = read_window(request->windows[i], arena, &windows[i], diag);
    batch->windows = windows;
    batch->window_count = count;
    return err;
}

/* ---- Stacks and frames ---- */

static sonde_err read_stacks(const Sonde__V1__WriteRequest *request, struct sonde_arena *arena,
                             struct history_delivery *delivery) {
    size_t count = 0;
    struct store_stack *stacks = sonde_arena_alloc(arena, (request->n_stacks + 1) * sizeof *stacks);
    if (!stacks)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < request->n_stacks; i++) {
        const Sonde__V1__StoredStack *from = request->stacks[i];
        if (store_stack_id(from->service, from->frames, from->n_frames) == from->id)
            stacks[count++] = (struct store_stack){from->service, from->id, from->frames,
                                                   (uint32_t)from->n_frames};
    }
    delivery->rejected += (uint32_t)(request->n_stacks - count);
    delivery->batch.stacks = stacks;
    delivery->batch.stack_count = count;
    return SONDE_OK;
}

/* The id of a frame without a module depends on the function's name: that of the function which
 * contains the code, and not of one inlined into it. */
static bool has_its_id(const Sonde__V1__StoredFrame *from) {
    const char *name = from->n_lines ? from->lines[from->n_lines - 1]->function : "";
    return store_frame_id(from->build_id, from->module, from->address, name) == from->id;
}

static sonde_err read_frame(const Sonde__V1__StoredFrame *from, struct sonde_arena *arena,
                            struct store_frame *frame) {
    struct store_line *lines = sonde_arena_alloc(arena, (from->n_lines + 1) * sizeof *lines);
    if (!lines)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->n_lines; i++)
        lines[i] = (struct store_line){from->lines[i]->function, from->lines[i]->file,
                                       from->lines[i]->line};
    *frame = (struct store_frame){
        .id = from->id,
        .build_id = from->build_id,
        .module = from->module,
        .address = from->address,
        .kind = (unsigned)from->kind <= SONDE_FRAME_NOTE ? (enum sonde_frame_kind)from->kind
                                                         : SONDE_FRAME_UNKNOWN,
        .version = from->version,
        .lines = lines,
        .line_count = (uint32_t)from->n_lines,
    };
    return SONDE_OK;
}

static sonde_err read_frames(const Sonde__V1__WriteRequest *request, struct sonde_arena *arena,
                             struct history_delivery *delivery) {
    size_t count = 0;
    struct store_frame *frames = sonde_arena_alloc(arena, (request->n_frames + 1) * sizeof *frames);
    sonde_err err = frames ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < request->n_frames && !err; i++) {
        if (has_its_id(request->frames[i]))
            err = read_frame(request->frames[i], arena, &frames[count++]);
        else
            delivery->rejected++;
    }
    delivery->batch.frames = frames;
    delivery->batch.frame_count = count;
    return err;
}

static sonde_err read_totals(const Sonde__V1__WriteRequest *request, struct sonde_arena *arena,
                             struct store_batch *batch) {
    size_t count = request->n_totals;
    struct store_total *totals = sonde_arena_alloc(arena, (count + 1) * sizeof *totals);
    if (!totals)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const Sonde__V1__StoredTotal *from = request->totals[i];
        totals[i] = (struct store_total){
            .source = from->source,
            .seq = from->seq,
            .epoch = from->epoch,
            .host = from->host,
            .begin_unix_s = from->begin_unix_s,
            .length_s = from->length_s,
            .process = from->process,
            .thread = from->thread,
            .cpu_ns = from->cpu_ns,
        };
    }
    batch->totals = totals;
    batch->total_count = count;
    return SONDE_OK;
}

sonde_err history_delivery_read(const Sonde__V1__WriteRequest *request, struct sonde_arena *arena,
                                struct history_delivery *delivery, struct sonde_diag *diag) {
    *delivery = (struct history_delivery){.rejected = 0};
    sonde_err err = read_windows(request, arena, &delivery->batch, diag);
    if (!err)
        err = read_stacks(request, arena, delivery);
    if (!err)
        err = read_frames(request, arena, delivery);
    if (!err)
        err = read_totals(request, arena, &delivery->batch);
    return err ? err : store_check(&delivery->batch, diag);
}
