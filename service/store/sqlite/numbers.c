/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/numbers.h"

#include "api/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS        (1u << 20) /* of a table: 24 MiB with the index */
#define MAX_TEXTS      65536
#define MAX_TEXT_BYTES (16u << 20)

static void id_table_clear(struct id_table *table) {
    table->count = 0;
    hash_index_clear(&table->index);
}

static uint32_t id_table_find(struct id_table *table, uint64_t id, uint32_t owner, uint32_t *hash) {
    if (!table->items)
        hash_index_init(&table->index);
    *hash = hash_index_words(&table->index, id, owner);
    struct hash_probe probe = hash_probe(*hash);
    uint32_t at;
    while ((at = hash_index_next(&table->index, &probe)) != HASH_INDEX_NONE)
        if (table->items[at].id == id && table->items[at].owner == owner)
            return table->items[at].number;
    return 0;
}

/* Without memory the number is not kept. */
static void id_table_add(struct id_table *table, struct number_item item, uint32_t hash) {
    if (table->count >= MAX_IDS)
        id_table_clear(table);
    if (!array_room(&table->items, &table->capacity, table->count, 1) ||
        !hash_index_add(&table->index, hash, (uint32_t)table->count))
        return;
    table->items[table->count++] = item;
}

static void text_table_clear(struct text_table *table) {
    for (size_t i = 0; i < table->count; i++)
        free(table->items[i].key);
    table->count = table->bytes = 0;
    hash_index_clear(&table->index);
}

static struct text_item *text_table_find(struct text_table *table, struct sonde_slice key,
                                         uint32_t *hash) {
    if (!table->items)
        hash_index_init(&table->index);
    *hash = hash_index_data(&table->index, key.data, key.len);
    struct hash_probe probe = hash_probe(*hash);
    uint32_t at;
    while ((at = hash_index_next(&table->index, &probe)) != HASH_INDEX_NONE)
        if (table->items[at].len == key.len && !memcmp(table->items[at].key, key.data, key.len))
            return &table->items[at];
    return NULL;
}

static void text_table_add(struct text_table *table, struct sonde_slice key, uint32_t hash,
                           uint32_t number, uint32_t owner) {
    if (table->count >= MAX_TEXTS || table->bytes > MAX_TEXT_BYTES)
        text_table_clear(table);
    char *copy = malloc(key.len + 1);
    if (!copy || !array_room(&table->items, &table->capacity, table->count, 1) ||
        !hash_index_add(&table->index, hash, (uint32_t)table->count)) {
        free(copy);
        return;
    }
    memcpy(copy, key.data, key.len);
    table->items[table->count++] = (struct text_item){copy, key.len, number, owner};
    table->bytes += key.len;
}

uint32_t numbers_service(struct db *db, int kind, const char *name) {
    int64_t number = db_number(db, 0, SERVICE_FIND, "it", (int64_t)kind, name);
    if (number)
        return (uint32_t)number;
    db_run(db, SERVICE_ADD, "it", (int64_t)kind, name);
    return (uint32_t)db_last_rowid(db);
}

static struct stream_number find_stream(struct db *db, int kind, const char *service,
                                        const char *event) {
    struct stream_number found = {0, numbers_service(db, kind, service)};
    int64_t stream = db_number(db, 0, STREAM_FIND, "it", (int64_t)found.service, event);
    if (!stream) {
        db_run(db, STREAM_ADD, "it", (int64_t)found.service, event);
        stream = db_last_rowid(db);
    }
    if (stream > KEY_MAX_STREAM)
        db_fail(db, SONDE_UNAVAILABLE,
                "the history has 524,287 services and events; record fewer services");
    found.stream = (uint32_t)stream;
    return found;
}

struct stream_number numbers_stream(struct numbers *numbers, struct db *db, int kind,
                                    const char *service, const char *event) {
    char key[2 * STORE_MAX_TEXT + 4];
    int len = snprintf(key, sizeof key, "%d%s%c%s", kind, service, 0, event);
    struct sonde_slice slice = {key, (size_t)len};
    uint32_t hash;
    struct text_item *item = text_table_find(&numbers->streams, slice, &hash);
    if (item)
        return (struct stream_number){item->number, item->owner};
    struct stream_number found = find_stream(db, kind, service, event);
    if (!db->failure)
        text_table_add(&numbers->streams, slice, hash, found.stream, found.service);
    return found;
}

uint32_t numbers_labels(struct numbers *numbers, struct db *db, struct sonde_slice body,
                        const char *host) {
    uint32_t hash;
    struct text_item *item = text_table_find(&numbers->labels, body, &hash);
    if (item)
        return item->number;
    int64_t number = db_number(db, 0, LABELS_FIND, "b", body);
    if (!number) {
        db_run(db, LABELS_ADD, "bt", body, host);
        number = db_last_rowid(db);
    }
    if (!db->failure)
        text_table_add(&numbers->labels, body, hash, (uint32_t)number, 0);
    return (uint32_t)number;
}

/* The service's next number. Numbers of deleted stacks at the end are given again. */
static uint32_t next_stack(struct numbers *numbers, struct db *db, uint32_t service) {
    size_t before = numbers->next_capacity;
    if (!array_room(&numbers->next_stack, &numbers->next_capacity, service, 1)) {
        db_out_of_memory(db);
        return 0;
    }
    if (numbers->next_capacity > before)
        memset(numbers->next_stack + before, 0,
               (numbers->next_capacity - before) * sizeof *numbers->next_stack);
    uint32_t *next = &numbers->next_stack[service];
    if (*next == 0) {
        int64_t last = db_number(db, 0, STACK_LAST, "ii", key_stack(service, 0),
                                 key_stack(service, KEY_MAX_STACK));
        *next = (uint32_t)last + 1;
    }
    if (*next == KEY_MAX_STACK)
        db_fail(db, SONDE_UNAVAILABLE, "the service has too many stacks; rename it");
    return (*next)++;
}

uint32_t numbers_stack(struct numbers *numbers, struct db *db, uint32_t service, uint64_t id) {
    uint32_t hash, number = id_table_find(&numbers->stacks, id, service, &hash);
    if (number || db->failure)
        return number;
    number = (uint32_t)db_number(db, 0, STACK_FIND, "iii", (int64_t)id, key_stack(service, 0),
                                 key_stack(service, KEY_MAX_STACK));
    if (!number) {
        number = next_stack(numbers, db, service);
        db_run(db, STACK_ADD, "ii", key_stack(service, number), (int64_t)id);
    }
    id_table_add(&numbers->stacks, (struct number_item){id, service, number}, hash);
    return number;
}

uint32_t numbers_frame(struct numbers *numbers, struct db *db, uint64_t id) {
    uint32_t hash, number = id_table_find(&numbers->frames, id, 0, &hash);
    if (number || db->failure)
        return number;
    number = (uint32_t)db_number(db, 0, FRAME_FIND, "i", (int64_t)id);
    if (!number) {
        db_run(db, FRAME_ADD, "i", (int64_t)id);
        number = (uint32_t)db_last_rowid(db);
    }
    id_table_add(&numbers->frames, (struct number_item){id, 0, number}, hash);
    return number;
}

uint32_t numbers_task(struct numbers *numbers, struct sonde_slice key, uint32_t *hash) {
    struct text_item *item = text_table_find(&numbers->tasks, key, hash);
    return item ? item->number : 0;
}

void numbers_set_task(struct numbers *numbers, struct sonde_slice key, uint32_t hash,
                      uint32_t number) {
    text_table_add(&numbers->tasks, key, hash, number, 0);
}

void numbers_clear(struct numbers *numbers) {
    id_table_clear(&numbers->stacks);
    id_table_clear(&numbers->frames);
    text_table_clear(&numbers->streams);
    text_table_clear(&numbers->labels);
    text_table_clear(&numbers->tasks);
    if (numbers->next_stack)
        memset(numbers->next_stack, 0, numbers->next_capacity * sizeof *numbers->next_stack);
}

void numbers_finish(struct numbers *numbers) {
    numbers_clear(numbers);
    free(numbers->stacks.items);
    free(numbers->frames.items);
    free(numbers->streams.items);
    free(numbers->labels.items);
    free(numbers->tasks.items);
    hash_index_finish(&numbers->stacks.index);
    hash_index_finish(&numbers->frames.index);
    hash_index_finish(&numbers->streams.index);
    hash_index_finish(&numbers->labels.index);
    hash_index_finish(&numbers->tasks.index);
    free(numbers->next_stack);
    *numbers = (struct numbers){0};
}
