/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer's numbers of streams, label sets, stacks and frames: found in memory, else in the
 * file, else given. The memory is bounded: a table that is full is emptied. After a rollback, and
 * after a deletion, numbers_clear forgets everything. Writer's lock held. */
#ifndef SONDE_SERVICE_STORE_SQLITE_NUMBERS_H
#define SONDE_SERVICE_STORE_SQLITE_NUMBERS_H

#include "service/store/sqlite/db/db.h"
#include "service/store/sqlite/db/keys.h"
#include "service/store/store.h"

#include "api/hash_index.h"

struct number_item {
    uint64_t id;
    uint32_t owner, number;
};

/* Numbers by (64-bit id, owner). */
struct id_table {
    struct number_item *items;
    size_t count, capacity;
    struct hash_index index;
};

struct text_item {
    char *key;
    size_t len;
    uint32_t number, owner;
};

/* Numbers by bytes. */
struct text_table {
    struct text_item *items;
    size_t count, capacity;
    size_t bytes; /* of all keys */
    struct hash_index index;
};

struct numbers {
    struct id_table stacks; /* owner: service */
    struct id_table frames;
    struct text_table streams, labels, tasks; /* tasks: (process, thread) of a host */
    uint32_t *next_stack;                     /* by service; 0 = not known yet */
    size_t next_capacity;
};

struct stream_number {
    uint32_t stream, service;
};

/* kind: enum service_kind. */
struct stream_number numbers_stream(struct numbers *numbers, struct db *db, int kind,
                                    const char *service, const char *event);
uint32_t numbers_labels(struct numbers *numbers, struct db *db, struct sonde_slice body,
                        const char *host);
uint32_t numbers_stack(struct numbers *numbers, struct db *db, uint32_t service, uint64_t id);
uint32_t numbers_frame(struct numbers *numbers, struct db *db, uint64_t id);
uint32_t numbers_service(struct db *db, int kind, const char *name);
/* The number of (process, thread) of a host if it is in memory, else 0; and what remembers it. */
uint32_t numbers_task(struct numbers *numbers, struct sonde_slice key, uint32_t *hash);
void numbers_set_task(struct numbers *numbers, struct sonde_slice key, uint32_t hash,
                      uint32_t number);
void numbers_clear(struct numbers *numbers);
void numbers_finish(struct numbers *numbers);

#endif
