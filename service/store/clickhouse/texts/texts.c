/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/texts/texts.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>

/* Reads the ids of an array column. */
static const uint64_t *read_ids(struct row_binary *rows, struct sonde_arena *arena,
                                uint32_t *count) {
    *count = (uint32_t)row_binary_count(rows, sizeof(uint64_t));
    uint64_t *ids = sonde_arena_alloc(arena, (*count + 1) * sizeof *ids);
    rows->failed = rows->failed || !ids;
    for (uint32_t i = 0; i < *count && ids; i++)
        ids[i] = row_binary_u64(rows);
    return ids;
}

/* A row that is there twice (not merged yet) is taken once. */
static void read_stack(struct row_binary *rows, struct fleet *fleet, struct text_map *map) {
    struct store_stack *stack = sonde_arena_alloc(map->arena, sizeof *stack);
    if (!stack) {
        rows->failed = true;
        return;
    }
    stack->service = row_binary_text(rows, map->arena);
    stack->id = row_binary_u64(rows);
    stack->frames = read_ids(rows, map->arena, &stack->frame_count);
    if (rows->failed || text_map_stack(map, stack->service, stack->id))
        return;
    rows->failed = !text_map_add(map, stack->id, stack);
    text_cache_add_stack(fleet->cache, stack);
}

sonde_err texts_stacks(struct fleet *fleet, const char *condition, const char *const *services,
                       const uint64_t *ids, size_t count, const struct store_stop *stop,
                       struct text_map *map, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0}, missing = {0};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (text_map_stack(map, services[i], ids[i]))
            continue;
        struct store_stack *known = text_cache_stack(fleet->cache, services[i], ids[i], map->arena);
        if (!known)
            sonde_buf_append(&missing, &ids[i], sizeof ids[i]);
        else if (!text_map_add(map, known->id, known))
            err = SONDE_OUT_OF_MEMORY;
    }
    sonde_buf_printf(&sql, "SELECT service, stack, frames FROM stacks WHERE %s", condition);
    sonde_buf_puts(&sql, " AND stack GLOBAL IN ids");
    if (!err && missing.failed)
        err = SONDE_OUT_OF_MEMORY;
    if (!err && missing.len)
        err = fleet_query_ids(fleet, &sql, (const uint64_t *)missing.data,
                              missing.len / sizeof *ids, stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_stack(&rows, fleet, map);
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    sonde_buf_finish(&missing);
    return err;
}

static void read_frame(struct row_binary *rows, struct text_map *map) {
    struct store_frame *frame = sonde_arena_alloc(map->arena, sizeof *frame);
    if (!frame) {
        rows->failed = true;
        return;
    }
    frame->id = row_binary_u64(rows);
    frame->build_id = row_binary_text(rows, map->arena);
    frame->module = row_binary_text(rows, map->arena);
    frame->address = row_binary_u64(rows);
    frame->kind = (enum sonde_frame_kind)row_binary_u8(rows);
    if (frame->kind > SONDE_FRAME_NOTE)
        frame->kind = SONDE_FRAME_UNKNOWN;
    if (!rows->failed && !text_map_frame(map, frame->id))
        rows->failed = !text_map_add(map, frame->id, frame);
}

/* Names of a frame. The largest version counts, also if the server has not merged them yet. */
static void read_symbol(struct row_binary *rows, struct text_map *map) {
    struct store_frame *frame = text_map_frame(map, row_binary_u64(rows));
    uint32_t version = row_binary_u32(rows);
    size_t count = row_binary_count(rows, 1);
    struct store_line *lines = sonde_arena_alloc(map->arena, (count + 1) * sizeof *lines);
    rows->failed = rows->failed || !lines;
    for (size_t i = 0; i < count && lines; i++)
        lines[i].function = row_binary_text(rows, map->arena);
    bool is_same = row_binary_count(rows, 1) == count;
    for (size_t i = 0; i < count && lines && is_same; i++)
        lines[i].file = row_binary_text(rows, map->arena);
    is_same = row_binary_count(rows, sizeof(uint32_t)) == count && is_same;
    for (size_t i = 0; i < count && lines && is_same; i++)
        lines[i].line = row_binary_u32(rows);
    rows->failed = rows->failed || !is_same;
    if (rows->failed || !frame || version < frame->version)
        return;
    frame->version = version;
    frame->lines = lines;
    frame->line_count = (uint32_t)count;
}

static sonde_err load(struct fleet *fleet, const char *select, const uint64_t *ids, size_t count,
                      const struct store_stop *stop,
                      void (*read)(struct row_binary *, struct text_map *), struct text_map *map,
                      struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_printf(&sql, "%s WHERE frame GLOBAL IN ids", select);
    sonde_err err = fleet_query_ids(fleet, &sql, ids, count, stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read(&rows, map);
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

sonde_err texts_frames(struct fleet *fleet, const uint64_t *ids, size_t count,
                       const struct store_stop *stop, struct text_map *map,
                       struct sonde_diag *diag) {
    struct sonde_buf missing = {0};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (text_map_frame(map, ids[i]))
            continue;
        struct store_frame *known = text_cache_frame(fleet->cache, ids[i], map->arena);
        if (!known)
            sonde_buf_append(&missing, &ids[i], sizeof ids[i]);
        else if (!text_map_add(map, known->id, known))
            err = SONDE_OUT_OF_MEMORY;
    }
    const uint64_t *wanted = (const uint64_t *)missing.data;
    size_t wanted_count = missing.len / sizeof *ids;
    err = !err && missing.failed ? SONDE_OUT_OF_MEMORY : err;
    if (!err && wanted_count)
        err = load(fleet, "SELECT frame, build_id, module, address, kind FROM frames", wanted,
                   wanted_count, stop, read_frame, map, diag);
    if (!err && wanted_count)
        err = load(fleet, "SELECT frame, version, l.function, l.file, l.line FROM symbols", wanted,
                   wanted_count, stop, read_symbol, map, diag);
    for (size_t i = 0; i < wanted_count && !err; i++) {
        const struct store_frame *frame = text_map_frame(map, wanted[i]);
        if (frame)
            text_cache_add_frame(fleet->cache, frame);
    }
    sonde_buf_finish(&missing);
    return err;
}

/* The map's items as an array. */
static sonde_err hand_over(const struct text_map *map, size_t size, void *result) {
    char *items = sonde_arena_alloc(map->arena, (map->count + 1) * size);
    for (size_t i = 0; i < map->count && items; i++)
        memcpy(items + i * size, map->items[i], size);
    memcpy(result, &items, sizeof items);
    return items ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err fleet_stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                       const struct store_stop *stop, struct sonde_arena *arena,
                       struct store_stack **stacks, size_t *found, struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf condition = {0};
    struct text_map map;
    text_map_init(&map, arena);
    const char **services = malloc((count + 1) * sizeof *services);
    for (size_t i = 0; i < count && services; i++)
        services[i] = service;
    sonde_buf_puts(&condition, "service = ");
    sql_text(&condition, sonde_slice_of(service));
    sonde_err err = !services || condition.failed ? SONDE_OUT_OF_MEMORY
                                                  : texts_stacks(fleet, condition.data, services,
                                                                 ids, count, stop, &map, diag);
    *found = map.count;
    if (!err)
        err = hand_over(&map, sizeof **stacks, stacks);
    free(services);
    sonde_buf_finish(&condition);
    text_map_finish(&map);
    return err;
}

sonde_err fleet_frames(struct store *store, const uint64_t *ids, size_t count,
                       const struct store_stop *stop, struct sonde_arena *arena,
                       struct store_frame **frames, size_t *found, struct sonde_diag *diag) {
    struct text_map map;
    text_map_init(&map, arena);
    sonde_err err = texts_frames((struct fleet *)store, ids, count, stop, &map, diag);
    *found = map.count;
    if (!err)
        err = hand_over(&map, sizeof **frames, frames);
    text_map_finish(&map);
    return err;
}

/* A frame's names are on the frame's own shard. */
sonde_err fleet_unnamed(struct store *store, size_t limit, struct sonde_arena *arena,
                        struct store_frame **frames, size_t *found, struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0}, answer = {0};
    struct text_map map;
    text_map_init(&map, arena);
    sonde_buf_puts(&sql,
                   "SELECT frame, build_id, module, address, kind FROM frames WHERE frame NOT "
                   "IN (SELECT frame FROM ");
    sql_name(&sql, fleet->settings.database); /* other shards have another default */
    sonde_buf_printf(&sql, ".symbols%s) ORDER BY first_seen DESC, frame LIMIT %zu",
                     fleet_local(fleet), limit);
    sonde_err err = fleet_query(fleet, &sql, NULL, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_frame(&rows, &map);
    err = err ? err : fleet_check(&rows, diag);
    *found = map.count;
    if (!err)
        err = hand_over(&map, sizeof **frames, frames);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    text_map_finish(&map);
    return err;
}
