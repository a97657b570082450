/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads stacks and frames by id. */
#include "api/base/array.h"
#include "service/store/sqlite/engine.h"
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

/* What engine_stacks collects. */
struct wanted {
    const char *service;
    struct sonde_arena *arena;
    struct store_stack *stacks;
    size_t found;
};

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

/* Adds the stack in a row of STACK_FIND or STACK_RANGE, whose last column has the frames. */
static void add_stack(struct engine *engine, struct db *db, sqlite3_stmt *row, int column,
                      uint64_t id, struct wanted *wanted) {
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return;
    struct store_stack *stack = &wanted->stacks[wanted->found++];
    *stack = (struct store_stack){.service = wanted->service, .id = id};
    decode_stack(engine, db, db_blob(row, column), wanted->arena, stack);
}

static int compare_ids(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The ids in order, each once; NULL when out of memory. The caller frees them. */
static uint64_t *sorted_ids(const uint64_t *ids, size_t *count) {
    uint64_t *sorted = malloc((*count + 1) * sizeof *sorted);
    size_t kept = 0;
    if (!sorted || *count == 0)
        return sorted;
    memcpy(sorted, ids, *count * sizeof *sorted);
    qsort(sorted, *count, sizeof *sorted, compare_ids);
    for (size_t i = 0; i < *count; i++)
        if (i == 0 || sorted[i] != sorted[kept - 1])
            sorted[kept++] = sorted[i];
    *count = kept;
    return sorted;
}

/* If many of a service's stacks are wanted, all are read, in the order in which they are stored:
 * that is 20 times faster for each. */
static void read_stacks(struct engine *engine, struct db *db, const uint64_t *ids, size_t count,
                        struct wanted *wanted) {
    int64_t service =
        db_number(db, 0, SERVICE_FIND, "it", (int64_t)SERVICE_RECORDED, wanted->service);
    int64_t first = key_stack((uint32_t)service, 0);
    int64_t last = key_stack((uint32_t)service, KEY_MAX_STACK);
    int64_t stored = db_number(db, first, STACK_LAST, "ii", first, last) - first;
    if (!service)
        return;
    bool reads_all = count * 16 > (size_t)stored;
    sqlite3_stmt *row = reads_all ? db_start(db, STACK_RANGE, "ii", first, last) : NULL;
    while (reads_all && db_row(db, row)) {
        uint64_t id = (uint64_t)sqlite3_column_int64(row, 1);
        if (bsearch(&id, ids, count, sizeof id, compare_ids))
            add_stack(engine, db, row, 2, id, wanted);
    }
    for (size_t i = 0; i < count && !reads_all && !db->failure; i++) {
        row = db_start(db, STACK_FIND, "iii", (int64_t)ids[i], first, last);
        if (db_row(db, row))
            add_stack(engine, db, row, 1, ids[i], wanted);
        db_stop(row);
    }
}

sonde_err engine_stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_stack **stacks, size_t *found, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct wanted wanted = {.service = sonde_arena_dup(arena, service, strlen(service)),
                            .arena = arena,
                            .stacks = sonde_arena_alloc(arena, (count + 1) * sizeof **stacks)};
    uint64_t *sorted = sorted_ids(ids, &count);
    if (!wanted.service || !wanted.stacks || !sorted)
        db_out_of_memory(db);
    lock_take(&engine->names_lock);
    if (!db->failure)
        read_stacks(engine, db, sorted, count, &wanted);
    lock_drop(&engine->names_lock);
    free(sorted);
    *stacks = wanted.stacks;
    *found = wanted.found;
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
        if (statement == TEXT_READ && sqlite3_column_int64(row, 1) != names_text_hash(text))
            db_damaged(db);
        entry.text = sonde_arena_dup(arena, text, strlen(text));
        text = statement == MODULE_READ ? db_text(row, 1) : "";
        entry.second = sonde_arena_dup(arena, text, strlen(text));
    } else {
        db_damaged(db);
    }
    db_stop(row);
    if (!entry.text || !entry.second ||
        !array_room(&cache->entries, &cache->capacity, cache->count, 1) ||
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
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_frame **frames, size_t *found, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct text_cache cache = {0};
    hash_index_init(&cache.index);
    *found = 0;
    *frames = sonde_arena_alloc(arena, (count + 1) * sizeof **frames);
    uint64_t *numbers = sorted_ids(ids, &count);
    if (!*frames || !numbers)
        db_out_of_memory(db);
    /* First the numbers, then the rows in their order, so that each page is read once. */
    for (size_t i = 0; i < count && !db->failure; i++)
        numbers[i] = (uint64_t)db_number(db, 0, FRAME_NUMBER, "i", (int64_t)numbers[i]);
    if (count > 1 && !db->failure)
        qsort(numbers, count, sizeof *numbers, compare_ids);
    for (size_t i = 0; i < count && !db->failure; i++) {
        sqlite3_stmt *row = db_start(db, FRAME_READ, "i", (int64_t)numbers[i]);
        if (db_row(db, row) && sqlite3_column_type(row, 1) != SQLITE_NULL)
            decode_frame(&cache, db, row, arena, &(*frames)[(*found)++]);
        db_stop(row);
    }
    free(numbers);
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
