/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks, frames and names of threads that were read lately, so that the same question is not asked
 * for each tree. Stacks never change. Names of frames do: they are forgotten after five minutes.
 * Each kind is emptied when it has 64 MiB. Thread safety: any thread. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_TEXTS_TEXT_CACHE_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_TEXTS_TEXT_CACHE_H

#include "api/hash_index.h"
#include "service/store/store.h"

/* Stacks or frames by id, for one request or in the cache. The items are in the owner's arena. */
struct text_map {
    struct hash_index index;
    struct sonde_arena *arena;
    void **items; /* struct store_stack or store_frame */
    size_t count, room;
};

void text_map_init(struct text_map *map, struct sonde_arena *arena);
void text_map_finish(struct text_map *map); /* without the arena */
/* NULL if there is none. */
struct store_stack *text_map_stack(const struct text_map *map, const char *service, uint64_t id);
struct store_frame *text_map_frame(const struct text_map *map, uint64_t id);
/* Adds the item itself. False when out of memory. */
bool text_map_add(struct text_map *map, uint64_t id, void *item);

/* Deep copies; NULL when out of memory. */
struct store_stack *text_copy_stack(struct sonde_arena *arena, const struct store_stack *stack);
struct store_frame *text_copy_frame(struct sonde_arena *arena, const struct store_frame *frame);

struct text_cache;
struct text_cache *text_cache_create(void); /* NULL when out of memory */
void text_cache_destroy(struct text_cache *cache);
/* A copy in the arena; NULL if there is none. */
struct store_stack *text_cache_stack(struct text_cache *cache, const char *service, uint64_t id,
                                     struct sonde_arena *arena);
struct store_frame *text_cache_frame(struct text_cache *cache, uint64_t id,
                                     struct sonde_arena *arena);
/* Keep copies. A frame replaces one with fewer names. Without memory they do nothing. */
void text_cache_add_stack(struct text_cache *cache, const struct store_stack *stack);
void text_cache_add_frame(struct text_cache *cache, const struct store_frame *frame);
/* Names of threads, by sql_thread_key. */
const char *text_cache_thread(struct text_cache *cache, uint64_t key, struct sonde_arena *arena);
void text_cache_add_thread(struct text_cache *cache, uint64_t key, const char *name);

#endif
