/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's state and operations, which are spread over this folder's files: put.c, names.c,
 * merge.c, series.c, list.c, maintain.c, sqlite.c. */
#ifndef SONDE_SERVICE_STORE_SQLITE_ENGINE_H
#define SONDE_SERVICE_STORE_SQLITE_ENGINE_H

#include "service/locks.h"
#include "service/store/sqlite/db/db.h"
#include "service/store/sqlite/numbers.h"
#include "service/store/store.h"

#define ENGINE_READERS 4

struct engine {
    struct store base;
    struct store_limits limits;
    char directory[448];
    int lock_file;
    bool is_read_only;      /* without a writer */
    uint64_t inode;         /* of the file, which somebody may remove or replace */
    struct lock write_lock; /* writer, numbers, and what maintain remembers */
    struct db writer;
    struct numbers numbers;
    int64_t cleaned_unix_s; /* when unused stacks were deleted */
    bool has_deleted;       /* hours, since then */
    /* engine_expire has looked at hours up to this one, and when it last looked at all of them. */
    uint32_t expired_stream;
    int64_t expired_hour, expired_unix_s;
    int64_t expired_all_unix_s; /* when it looked at every hour, and not only at those at a limit */
    struct lock read_lock;      /* the rest */
    pthread_cond_t reader_is_free;
    struct db readers[ENGINE_READERS];
    bool is_open[ENGINE_READERS], is_used[ENGINE_READERS];
    char trouble[256];
    struct lock names_lock; /* the ids of frames by number, which never change; 0 = not read yet */
    uint64_t *frame_ids;
    size_t frame_capacity;
    struct leases *leases; /* in memory: no other process uses this file */
};

/* A connection with a snapshot. Waits until one is free. If it cannot be opened, it has a failure,
 * which engine_read_end returns. */
struct db *engine_read(struct engine *engine);
/* Ends the snapshot and returns the connection's first failure. */
SONDE_MUST_USE sonde_err engine_read_end(struct engine *engine, struct db *db,
                                         struct sonde_diag *diag);
/* Notes why writing failed, or that it works (SONDE_OK). Returns err. */
sonde_err engine_note(struct engine *engine, sonde_err err, struct sonde_diag *diag);

/* SONDE_UNAVAILABLE: nobody would find what is written, because the file has no name any more. */
SONDE_MUST_USE sonde_err engine_check_file(const struct engine *engine, struct sonde_diag *diag);

/* Writes the windows of first_minute to last_minute, within one hour, as a chunk. Call it with the
 * writer's lock held. */
struct chunk;
void engine_add_chunk(struct db *db, uint32_t stream, int64_t first_minute, int64_t last_minute,
                      struct chunk *chunk, int level);

/* What a chunk's windows add to their hour. */
struct engine_counts {
    int64_t windows, samples, dropped, first, last, last_minute;
};
struct engine_counts engine_count(const struct chunk *chunk);

/* A batch while it is written. */
struct put {
    struct db *db;
    struct numbers *numbers;
    const struct store_batch *batch;
    struct store_put_result *result;
};

/* Stores the stacks and frames of a batch (names_put.c). Call it with the writer's lock held. */
void engine_put_stacks(struct put *put);
void engine_put_frames(struct put *put);
/* Stored beside each name, which it also protects: FNV-1a. */
int64_t names_text_hash(const char *text);
/* The number of a host's (process, thread). */
uint32_t engine_put_task(struct put *put, uint32_t service, const struct store_total *total);

/* Deletes what no chunk uses any more: stacks, frames, texts, label sets, services. Within a
 * transaction of the writer; numbers_clear must follow. */
void engine_clean(struct db *db);

/* Deletes windows by limits.keeps, from some hours of streams; returns whether there are more.
 * Within a transaction of the writer; finished hours only. */
bool engine_expire(struct engine *engine, int64_t now_unix_s);
/* Whether engine_expire is to look at every hour now: once a day, for windows that arrived when
 * their time was over, and at the start, because the rules may be new. */
bool engine_expires_all(const struct engine *engine, int64_t now_unix_s);

/* The operations; see struct store_ops. */
sonde_err engine_put(struct store *, const struct store_batch *, struct store_put_result *,
                     struct sonde_diag *);
sonde_err engine_merge(struct store *, const struct store_query *, struct sonde_arena *,
                       struct store_merge *, struct sonde_diag *);
sonde_err engine_stacks(struct store *, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *, struct store_stack **,
                        size_t *found, struct sonde_diag *);
sonde_err engine_frames(struct store *, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *, struct store_frame **,
                        size_t *found, struct sonde_diag *);
sonde_err engine_unnamed(struct store *, size_t limit, struct sonde_arena *, struct store_frame **,
                         size_t *found, struct sonde_diag *);
sonde_err engine_series(struct store *, const struct store_series_query *, struct sonde_arena *,
                        struct store_series_result *, struct sonde_diag *);
sonde_err engine_totals(struct store *, const struct store_query *, struct sonde_arena *,
                        struct store_total_row **, size_t *row_count, struct store_merge *,
                        struct sonde_diag *);
sonde_err engine_hosts(struct store *, const struct store_query *, struct sonde_arena *,
                       struct store_host **, size_t *count, struct sonde_diag *);
sonde_err engine_services(struct store *, const struct store_query *, struct sonde_arena *,
                          struct store_service **, size_t *count, struct sonde_diag *);
sonde_err engine_labels(struct store *, const struct store_query *, const char *name, size_t limit,
                        struct sonde_arena *, const char ***texts, size_t *count, bool *is_cut,
                        struct sonde_diag *);
sonde_err engine_lease(struct store *, const struct store_lease_request *, struct sonde_arena *,
                       struct store_lease **, size_t *count, struct sonde_diag *);
sonde_err engine_put_change(struct store *, const struct store_change *, struct sonde_diag *);
sonde_err engine_changes(struct store *, const struct store_change_query *, struct sonde_arena *,
                         struct store_change **, size_t *count, struct sonde_diag *);
/* Deletes changes that are too old or too many. Within a transaction of the writer. */
void engine_expire_changes(struct engine *engine, int64_t now_unix_s);
sonde_err engine_info(struct store *, const struct store_stop *stop, struct store_info *,
                      struct sonde_diag *);
sonde_err engine_maintain(struct store *, int64_t now_unix_s, struct sonde_diag *);

#endif
