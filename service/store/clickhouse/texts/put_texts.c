/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks and frames of a batch: those that are stored already are skipped, those that contradict
 * what is stored, or an earlier one of the batch, are rejected. */
#include "service/store/clickhouse/put.h"
#include "service/store/clickhouse/texts/texts.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_number32(struct sonde_buf *block, uint32_t number) {
    sonde_buf_append(block, &number, sizeof number);
}

static void put_number64(struct sonde_buf *block, uint64_t number) {
    sonde_buf_append(block, &number, sizeof number);
}

static void put_first_seen(struct sonde_buf *block, const void *item) {
    put_number32(block, (uint32_t)time(NULL));
}

static void put_stack_service(struct sonde_buf *block, const void *item) {
    native_text(block, ((const struct store_stack *)item)->service);
}

static void put_stack_id(struct sonde_buf *block, const void *item) {
    put_number64(block, ((const struct store_stack *)item)->id);
}

static size_t count_frames(const void *item) {
    return ((const struct store_stack *)item)->frame_count;
}

static void put_stack_frames(struct sonde_buf *block, const void *item) {
    const struct store_stack *stack = item;
    sonde_buf_append(block, stack->frames, stack->frame_count * sizeof *stack->frames);
}

static const struct native_column stack_columns[] = {
    {"service", "String", put_stack_service, NULL},
    {"stack", "UInt64", put_stack_id, NULL},
    {"frames", "Array(UInt64)", put_stack_frames, count_frames},
    {"first_seen", "DateTime('UTC')", put_first_seen, NULL},
};

static void put_frame_id(struct sonde_buf *block, const void *item) {
    put_number64(block, ((const struct store_frame *)item)->id);
}

static void put_build_id(struct sonde_buf *block, const void *item) {
    native_text(block, ((const struct store_frame *)item)->build_id);
}

static void put_module(struct sonde_buf *block, const void *item) {
    native_text(block, ((const struct store_frame *)item)->module);
}

static void put_address(struct sonde_buf *block, const void *item) {
    put_number64(block, ((const struct store_frame *)item)->address);
}

static void put_kind(struct sonde_buf *block, const void *item) {
    sonde_buf_putc(block, (char)((const struct store_frame *)item)->kind);
}

static const struct native_column frame_columns[] = {
    {"frame", "UInt64", put_frame_id, NULL},
    {"build_id", "String", put_build_id, NULL},
    {"module", "String", put_module, NULL},
    {"address", "UInt64", put_address, NULL},
    {"kind", "UInt8", put_kind, NULL},
    {"first_seen", "DateTime('UTC')", put_first_seen, NULL},
};

static size_t count_lines(const void *item) {
    return ((const struct store_frame *)item)->line_count;
}

static void put_version(struct sonde_buf *block, const void *item) {
    put_number32(block, ((const struct store_frame *)item)->version);
}

static void put_functions(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_lines(item); i++)
        native_text(block, ((const struct store_frame *)item)->lines[i].function);
}

static void put_files(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_lines(item); i++)
        native_text(block, ((const struct store_frame *)item)->lines[i].file);
}

static void put_lines(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_lines(item); i++)
        put_number32(block, ((const struct store_frame *)item)->lines[i].line);
}

static const struct native_column symbol_columns[] = {
    {"frame", "UInt64", put_frame_id, NULL},
    {"version", "UInt32", put_version, NULL},
    {"l.function", "Array(String)", put_functions, count_lines},
    {"l.file", "Array(String)", put_files, count_lines},
    {"l.line", "Array(UInt32)", put_lines, count_lines},
};

/* Items of one table, each for the shard of its id. */
struct pending {
    const void **items;
    uint64_t *ids;
    size_t count;
};

static sonde_err insert(struct fleet *fleet, const char *table, const struct native_column *columns,
                        size_t column_count, const struct pending *pending,
                        struct sonde_diag *diag) {
    const void **own = malloc((pending->count + 1) * sizeof *own);
    sonde_err err = own ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++) {
        size_t count = 0;
        for (size_t i = 0; i < pending->count; i++)
            if (fleet_shard_of_id(fleet, pending->ids[i]) == shard)
                own[count++] = pending->items[i];
        struct fleet_insert block = {table, columns, column_count, own, count, NULL};
        err = fleet_insert(fleet, shard, &block, diag);
    }
    free(own);
    return err;
}

static bool start(struct pending *pending, struct sonde_arena *arena, size_t room) {
    pending->items = sonde_arena_alloc(arena, (room + 1) * sizeof *pending->items);
    pending->ids = sonde_arena_alloc(arena, (room + 1) * sizeof *pending->ids);
    return pending->items && pending->ids;
}

static void add(struct pending *pending, uint64_t id, const void *item) {
    pending->items[pending->count] = item;
    pending->ids[pending->count++] = id;
}

static bool is_same_stack(const struct store_stack *a, const struct store_stack *b) {
    return a->frame_count == b->frame_count &&
           (a->frame_count == 0 ||
            memcmp(a->frames, b->frames, a->frame_count * sizeof *a->frames) == 0);
}

/* Sorts the batch's stacks into new, known and rejected ones. */
static sonde_err sort_stacks(const struct store_batch *batch, struct text_map *known,
                             struct pending *added, struct store_put_result *result) {
    for (size_t i = 0; i < batch->stack_count; i++) {
        const struct store_stack *stack = &batch->stacks[i];
        const struct store_stack *other = text_map_stack(known, stack->service, stack->id);
        if (other) {
            result->rejected += !is_same_stack(stack, other);
            continue;
        }
        if (!text_map_add(known, stack->id, (void *)stack))
            return SONDE_OUT_OF_MEMORY;
        add(added, stack->id, stack);
    }
    return SONDE_OK;
}

static sonde_err put_stacks(struct fleet *fleet, const struct store_batch *batch,
                            struct sonde_arena *arena, struct store_put_result *result,
                            struct sonde_diag *diag) {
    size_t count = batch->stack_count;
    const char **services = sonde_arena_alloc(arena, (count + 1) * sizeof *services);
    uint64_t *ids = sonde_arena_alloc(arena, (count + 1) * sizeof *ids);
    struct pending added = {0};
    struct sonde_buf condition = {0};
    struct text_map known;
    text_map_init(&known, arena);
    sonde_err err = services && ids && start(&added, arena, count) ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++) {
        services[i] = batch->stacks[i].service;
        ids[i] = batch->stacks[i].id;
    }
    sonde_buf_putc(&condition, '1');
    if (!err)
        put_in(&condition, "service", services, count);
    for (size_t i = 0; i < count && !err; i++) /* put_in has sorted them */
        services[i] = batch->stacks[i].service;
    if (!err)
        err = condition.failed ? SONDE_OUT_OF_MEMORY
                               : texts_stacks(fleet, condition.data, services, ids, count,
                                              batch->stop, &known, diag);
    if (!err)
        err = sort_stacks(batch, &known, &added, result);
    if (!err)
        err = insert(fleet, "stacks", stack_columns, 4, &added, diag);
    for (size_t i = 0; i < added.count && !err; i++)
        text_cache_add_stack(fleet->cache, added.items[i]);
    text_map_finish(&known);
    sonde_buf_finish(&condition);
    return err;
}

/* With a build-id the module's path may differ: the same file in two places. */
static bool is_same_frame(const struct store_frame *a, const struct store_frame *b) {
    return a->address == b->address && strcmp(a->build_id, b->build_id) == 0 &&
           (a->build_id[0] || strcmp(a->module, b->module) == 0);
}

static bool has_better_names(const struct store_frame *frame, const struct store_frame *known) {
    return frame->line_count && (!known->line_count || frame->version > known->version);
}

/* Updates `known` as it goes, so that two versions of a frame in one batch are compared with each
 * other. */
static sonde_err sort_frames(const struct store_batch *batch, struct text_map *known,
                             struct pending *added, struct pending *named,
                             struct store_put_result *result) {
    for (size_t i = 0; i < batch->frame_count; i++) {
        const struct store_frame *frame = &batch->frames[i];
        struct store_frame *other = text_map_frame(known, frame->id);
        bool is_conflict = other && !is_same_frame(frame, other);
        result->rejected += is_conflict;
        if (is_conflict || (other && !has_better_names(frame, other)))
            continue;
        if (frame->line_count)
            add(named, frame->id, frame);
        if (other) {
            other->version = frame->version;
            other->lines = frame->lines;
            other->line_count = frame->line_count;
            continue;
        }
        add(added, frame->id, frame);
        other = text_copy_frame(known->arena, frame);
        if (!other || !text_map_add(known, frame->id, other))
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

static sonde_err put_frames(struct fleet *fleet, const struct store_batch *batch,
                            struct sonde_arena *arena, struct store_put_result *result,
                            struct sonde_diag *diag) {
    size_t count = batch->frame_count;
    uint64_t *ids = sonde_arena_alloc(arena, (count + 1) * sizeof *ids);
    struct pending added = {0}, named = {0};
    struct text_map known;
    text_map_init(&known, arena);
    bool has_room = ids && start(&added, arena, count) && start(&named, arena, count);
    sonde_err err = has_room ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++)
        ids[i] = batch->frames[i].id;
    if (!err)
        err = texts_frames(fleet, ids, count, batch->stop, &known, diag);
    if (!err)
        err = sort_frames(batch, &known, &added, &named, result);
    if (!err)
        err = insert(fleet, "symbols", symbol_columns, 5, &named, diag);
    if (!err)
        err = insert(fleet, "frames", frame_columns, 6, &added, diag);
    for (size_t i = 0; i < count && !err; i++) {
        const struct store_frame *frame = text_map_frame(&known, ids[i]);
        if (frame)
            text_cache_add_frame(fleet->cache, frame);
    }
    text_map_finish(&known);
    return err;
}

sonde_err fleet_put_texts(struct fleet *fleet, const struct store_batch *batch,
                          struct store_put_result *result, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    sonde_err err = SONDE_OK;
    if (batch->frame_count)
        err = put_frames(fleet, batch, &arena, result, diag);
    if (!err && batch->stack_count)
        err = put_stacks(fleet, batch, &arena, result, diag);
    sonde_arena_finish(&arena);
    return err;
}
