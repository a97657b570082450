/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/texts/text_cache.h"

#include "api/base/array.h"
#include "api/base/clock.h"
#include "service/locks.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES  ((size_t)64 << 20)
#define MAX_AGE_NS (300 * (uint64_t)1000000000)

struct kind {
    struct text_map map;
    struct sonde_arena arena;
    uint64_t begin_ns; /* when it was empty */
};

struct text_cache {
    struct lock lock;
    struct kind stacks, frames, threads;
};

void text_map_init(struct text_map *map, struct sonde_arena *arena) {
    *map = (struct text_map){.arena = arena};
    hash_index_init(&map->index);
}

void text_map_finish(struct text_map *map) {
    hash_index_finish(&map->index);
    free(map->items);
}

struct store_stack *text_map_stack(const struct text_map *map, const char *service, uint64_t id) {
    struct hash_probe probe = hash_probe(hash_index_words(&map->index, id, 0));
    uint32_t number;
    while ((number = hash_index_next(&map->index, &probe)) != HASH_INDEX_NONE) {
        struct store_stack *stack = map->items[number];
        if (stack->id == id && strcmp(stack->service, service) == 0)
            return stack;
    }
    return NULL;
}

static size_t find_frame(const struct text_map *map, uint64_t id) {
    struct hash_probe probe = hash_probe(hash_index_words(&map->index, id, 0));
    uint32_t number;
    while ((number = hash_index_next(&map->index, &probe)) != HASH_INDEX_NONE)
        if (((const struct store_frame *)map->items[number])->id == id)
            return number;
    return SIZE_MAX;
}

struct store_frame *text_map_frame(const struct text_map *map, uint64_t id) {
    size_t number = find_frame(map, id);
    return number == SIZE_MAX ? NULL : map->items[number];
}

bool text_map_add(struct text_map *map, uint64_t id, void *item) {
    if (!array_room(&map->items, &map->room, map->count, 1))
        return false;
    uint32_t hash = hash_index_words(&map->index, id, 0);
    if (!hash_index_add(&map->index, hash, (uint32_t)map->count))
        return false;
    map->items[map->count++] = item;
    return true;
}

static const char *copy_text(struct sonde_arena *arena, const char *text) {
    return sonde_arena_dup(arena, text, strlen(text));
}

struct store_stack *text_copy_stack(struct sonde_arena *arena, const struct store_stack *stack) {
    struct store_stack *copy = sonde_arena_alloc(arena, sizeof *copy);
    size_t bytes = stack->frame_count * sizeof *stack->frames;
    uint64_t *frames = sonde_arena_alloc(arena, bytes + 1);
    const char *service = copy_text(arena, stack->service);
    if (!copy || !frames || !service)
        return NULL;
    if (bytes)
        memcpy(frames, stack->frames, bytes);
    *copy = (struct store_stack){service, stack->id, frames, stack->frame_count};
    return copy;
}

struct store_frame *text_copy_frame(struct sonde_arena *arena, const struct store_frame *frame) {
    struct store_frame *copy = sonde_arena_alloc(arena, sizeof *copy);
    struct store_line *lines = sonde_arena_alloc(arena, (frame->line_count + 1) * sizeof *lines);
    if (!copy || !lines)
        return NULL;
    *copy = *frame;
    copy->lines = lines;
    copy->build_id = copy_text(arena, frame->build_id);
    copy->module = copy_text(arena, frame->module);
    bool is_whole = copy->build_id && copy->module;
    for (uint32_t i = 0; i < frame->line_count && is_whole; i++) {
        const struct store_line *line = &frame->lines[i];
        lines[i] = (struct store_line){copy_text(arena, line->function),
                                       copy_text(arena, line->file), line->line};
        is_whole = lines[i].function && lines[i].file;
    }
    return is_whole ? copy : NULL;
}

static void start(struct kind *kind) {
    kind->arena = (struct sonde_arena){0};
    kind->begin_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    text_map_init(&kind->map, &kind->arena);
}

static void finish(struct kind *kind) {
    text_map_finish(&kind->map);
    sonde_arena_finish(&kind->arena);
}

static void empty(struct kind *kind) {
    finish(kind);
    start(kind);
}

struct text_cache *text_cache_create(void) {
    struct text_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    lock_init(&cache->lock, LOCK_STORE_LINKS);
    start(&cache->stacks);
    start(&cache->frames);
    start(&cache->threads);
    return cache;
}

void text_cache_destroy(struct text_cache *cache) {
    if (!cache)
        return;
    finish(&cache->stacks);
    finish(&cache->frames);
    finish(&cache->threads);
    lock_finish(&cache->lock);
    free(cache);
}

struct store_stack *text_cache_stack(struct text_cache *cache, const char *service, uint64_t id,
                                     struct sonde_arena *arena) {
    lock_take(&cache->lock);
    const struct store_stack *stack = text_map_stack(&cache->stacks.map, service, id);
    struct store_stack *copy = stack ? text_copy_stack(arena, stack) : NULL;
    lock_drop(&cache->lock);
    return copy;
}

struct store_frame *text_cache_frame(struct text_cache *cache, uint64_t id,
                                     struct sonde_arena *arena) {
    lock_take(&cache->lock);
    if ((uint64_t)clock_ns(CLOCK_MONOTONIC) - cache->frames.begin_ns > MAX_AGE_NS)
        empty(&cache->frames);
    const struct store_frame *frame = text_map_frame(&cache->frames.map, id);
    struct store_frame *copy = frame ? text_copy_frame(arena, frame) : NULL;
    lock_drop(&cache->lock);
    return copy;
}

static void make_room(struct kind *kind) {
    if (kind->arena.total + kind->map.room * sizeof *kind->map.items > MAX_BYTES)
        empty(kind);
}

void text_cache_add_stack(struct text_cache *cache, const struct store_stack *stack) {
    lock_take(&cache->lock);
    make_room(&cache->stacks);
    if (!text_map_stack(&cache->stacks.map, stack->service, stack->id)) {
        struct store_stack *copy = text_copy_stack(&cache->stacks.arena, stack);
        if (copy)
            (void)!text_map_add(&cache->stacks.map, stack->id, copy);
    }
    lock_drop(&cache->lock);
}

void text_cache_add_frame(struct text_cache *cache, const struct store_frame *frame) {
    lock_take(&cache->lock);
    make_room(&cache->frames);
    size_t old = find_frame(&cache->frames.map, frame->id);
    bool is_newer = old == SIZE_MAX ||
                    ((struct store_frame *)cache->frames.map.items[old])->version < frame->version;
    struct store_frame *copy = is_newer ? text_copy_frame(&cache->frames.arena, frame) : NULL;
    if (copy && old != SIZE_MAX)
        cache->frames.map.items[old] = copy;
    else if (copy)
        (void)!text_map_add(&cache->frames.map, frame->id, copy);
    lock_drop(&cache->lock);
}

static const char *find_thread(const struct text_cache *cache, uint64_t key) {
    const struct text_map *map = &cache->threads.map;
    struct hash_probe probe = hash_probe(hash_index_words(&map->index, key, 0));
    uint32_t number;
    while ((number = hash_index_next(&map->index, &probe)) != HASH_INDEX_NONE)
        if (sql_thread_key(map->items[number]) == key)
            return map->items[number];
    return NULL;
}

const char *text_cache_thread(struct text_cache *cache, uint64_t key, struct sonde_arena *arena) {
    lock_take(&cache->lock);
    const char *name = find_thread(cache, key);
    const char *copy = name ? copy_text(arena, name) : NULL;
    lock_drop(&cache->lock);
    return copy;
}

void text_cache_add_thread(struct text_cache *cache, uint64_t key, const char *name) {
    lock_take(&cache->lock);
    make_room(&cache->threads);
    char *copy =
        find_thread(cache, key) ? NULL : sonde_arena_dup(&cache->threads.arena, name, strlen(name));
    if (copy)
        (void)!text_map_add(&cache->threads.map, key, copy);
    lock_drop(&cache->lock);
}
