/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads stacks and frames by id. */
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/format/text_list.h"
#include "service/store/sqlite/format/varint.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CACHED_FRAMES (4u << 20) /* 32 MiB */

/* Makes room in the engine's table; false: the number is not kept there. */
static bool reserve_frame(struct engine *engine, uint64_t number) {
    if (number < engine->frame_capacity)
        return true;
    if (number >= MAX_CACHED_FRAMES)
        return false;
    size_t before = engine->frame_capacity, capacity = (number + 1) * 2;
    uint64_t *larger = realloc(engine->frame_ids, capacity * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + before, 0, (capacity - before) * sizeof *larger);
    engine->frame_ids = larger;
    engine->frame_capacity = capacity;
    return true;
}

/* names_lock held. */
static uint64_t frame_id(struct engine *engine, struct db *db, uint64_t number) {
    bool is_kept = reserve_frame(engine, number);
    if (is_kept && engine->frame_ids[number])
        return engine->frame_ids[number];
    uint64_t id = (uint64_t)db_number(db, 0, FRAME_ID, "i", (int64_t)number);
    if (is_kept)
        engine->frame_ids[number] = id;
    return id;
}

static void decode_stack(struct engine *engine, struct db *db, struct sonde_slice frames,
                         struct sonde_arena *arena, struct store_stack *stack) {
    struct varint_reader reader = varint_reader(frames.data, frames.len);
    uint64_t ids[STORE_MAX_DEPTH];
    uint32_t count = 0;
    while (reader.at < reader.end && count < STORE_MAX_DEPTH && !db->failure)
        ids[count++] = frame_id(engine, db, varint_get_max(&reader, INT64_MAX));
    uint64_t *copy = sonde_arena_alloc(arena, (count + 1) * sizeof *copy);
    if (reader.failed || reader.at < reader.end)
        db_damaged(db);
    if (!copy) {
        db_out_of_memory(db);
        return;
    }
    memcpy(copy, ids, count * sizeof *ids);
    stack->frames = copy;
    stack->frame_count = count;
}

static void read_stacks(struct engine *engine, struct db *db, const char *service,
                        const uint64_t *ids, size_t count, struct sonde_arena *arena,
                        struct store_stack *stacks, size_t *found) {
    int64_t number = db_number(db, 0, SERVICE_FIND, "it", (int64_t)SERVICE_RECORDED, service);
    const char *name = sonde_arena_dup(arena, service, strlen(service));
    if (!name)
        db_out_of_memory(db);
    for (size_t i = 0; i < count && number && !db->failure; i++) {
        sqlite3_stmt *row =
            db_start(db, STACK_FIND, "iii", (int64_t)ids[i], key_stack((uint32_t)number, 0),
                     key_stack((uint32_t)number, KEY_MAX_STACK));
        if (db_row(db, row) && sqlite3_column_type(row, 1) != SQLITE_NULL) {
            struct store_stack *stack = &stacks[(*found)++];
            *stack = (struct store_stack){.service = name, .id = ids[i]};
            decode_stack(engine, db, db_blob(row, 1), arena, stack);
        }
        db_stop(row);
    }
}

sonde_err engine_stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                        struct sonde_arena *arena, struct store_stack **stacks, size_t *found,
                        struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    *found = 0;
    *stacks = sonde_arena_alloc(arena, (count + 1) * sizeof **stacks);
    if (!*stacks)
        db_out_of_memory(db);
    lock_take(&engine->names_lock);
    read_stacks(engine, db, service, ids, count, arena, *stacks, found);
    lock_drop(&engine->names_lock);
    return engine_read_end(engine, db, diag);
}

/* Texts and modules that a call has read already, by number. */
struct text_cache {
    struct hash_index index;
    struct text_entry {
        uint64_t key;
        const char *text, *second;
    } * entries;
    size_t count, capacity;
};

/* statement returns one or two texts. */
static struct text_entry *read_text(struct text_cache *cache, struct db *db,
                                    struct sonde_arena *arena, enum statement statement,
                                    uint64_t number) {
    static struct text_entry none = {0, "", ""};
    uint32_t hash = hash_index_words(&cache->index, number, statement), at;
    uint64_t key = number << 8 | statement;
    struct hash_probe probe = hash_probe(hash);
    while ((at = hash_index_next(&cache->index, &probe)) != HASH_INDEX_NONE)
        if (cache->entries[at].key == key)
            return &cache->entries[at];
    struct text_entry entry = {.key = key, .text = "", .second = ""};
    sqlite3_stmt *row = db_start(db, statement, "i", (int64_t)number);
    if (db_row(db, row)) {
        const char *text = db_text(row, 0);
        entry.text = sonde_arena_dup(arena, text, strlen(text));
        text = statement == MODULE_READ ? db_text(row, 1) : "";
        entry.second = sonde_arena_dup(arena, text, strlen(text));
    } else {
        db_damaged(db);
    }
    db_stop(row);
    if (!entry.text || !entry.second ||
        !array_reserve(&cache->entries, &cache->capacity, cache->count + 1,
                       sizeof *cache->entries) ||
        !hash_index_add(&cache->index, hash, (uint32_t)cache->count)) {
        db_out_of_memory(db);
        return &none;
    }
    cache->entries[cache->count] = entry;
    return &cache->entries[cache->count++];
}

static void decode_lines(struct text_cache *cache, struct db *db, struct sonde_slice bytes,
                         struct sonde_arena *arena, struct store_frame *frame) {
    struct varint_reader reader = varint_reader(bytes.data, bytes.len);
    struct store_line lines[STORE_MAX_LINES];
    uint32_t count = 0;
    while (reader.at < reader.end && count < STORE_MAX_LINES && !db->failure) {
        uint64_t function = varint_get_max(&reader, INT64_MAX >> 8);
        uint64_t file = varint_get_max(&reader, INT64_MAX >> 8);
        lines[count].line = (uint32_t)varint_get_max(&reader, UINT32_MAX);
        lines[count].function = read_text(cache, db, arena, TEXT_READ, function)->text;
        lines[count++].file = read_text(cache, db, arena, TEXT_READ, file)->text;
    }
    struct store_line *copy = sonde_arena_alloc(arena, (count + 1) * sizeof *copy);
    if (reader.failed || reader.at < reader.end)
        db_damaged(db);
    if (!copy) {
        db_out_of_memory(db);
        return;
    }
    memcpy(copy, lines, count * sizeof *lines);
    frame->lines = copy;
    frame->line_count = count;
}

static void decode_frame(struct text_cache *cache, struct db *db, sqlite3_stmt *row,
                         struct sonde_arena *arena, struct store_frame *frame) {
    struct text_entry *module =
        read_text(cache, db, arena, MODULE_READ, (uint64_t)sqlite3_column_int64(row, 1));
    *frame = (struct store_frame){.id = (uint64_t)sqlite3_column_int64(row, 6),
                                  .build_id = module->text,
                                  .module = module->second,
                                  .address = (uint64_t)sqlite3_column_int64(row, 2),
                                  .kind = (enum sonde_frame_kind)sqlite3_column_int64(row, 3),
                                  .version = (uint32_t)sqlite3_column_int64(row, 4)};
    decode_lines(cache, db, db_blob(row, 5), arena, frame);
}

static void finish_cache(struct text_cache *cache) {
    hash_index_finish(&cache->index);
    free(cache->entries);
}

sonde_err engine_frames(struct store *store, const uint64_t *ids, size_t count,
                        struct sonde_arena *arena, struct store_frame **frames, size_t *found,
                        struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct text_cache cache = {0};
    hash_index_init(&cache.index);
    *found = 0;
    *frames = sonde_arena_alloc(arena, (count + 1) * sizeof **frames);
    if (!*frames)
        db_out_of_memory(db);
    for (size_t i = 0; i < count && !db->failure; i++) {
        sqlite3_stmt *row = db_start(db, FRAME_FIND, "i", (int64_t)ids[i]);
        if (db_row(db, row) && sqlite3_column_type(row, 1) != SQLITE_NULL)
            decode_frame(&cache, db, row, arena, &(*frames)[(*found)++]);
        db_stop(row);
    }
    finish_cache(&cache);
    return engine_read_end(engine, db, diag);
}

sonde_err engine_unnamed(struct store *store, size_t limit, struct sonde_arena *arena,
                         struct store_frame **frames, size_t *found, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct text_cache cache = {0};
    hash_index_init(&cache.index);
    *found = 0;
    *frames = sonde_arena_alloc(arena, (limit + 1) * sizeof **frames);
    if (!*frames)
        db_out_of_memory(db);
    sqlite3_stmt *row = db_start(db, FRAME_UNNAMED, "i", (int64_t)limit);
    while (*found < limit && db_row(db, row))
        decode_frame(&cache, db, row, arena, &(*frames)[(*found)++]);
    db_stop(row);
    finish_cache(&cache);
    return engine_read_end(engine, db, diag);
}
