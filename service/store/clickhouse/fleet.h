/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's own state, for the files of this folder.
 *
 * A table NAME is read by this name. On one server it is a MergeTree. In a cluster it is
 * Distributed over the shards' NAME_local, which are Replicated; rows are inserted into NAME_local
 * on one replica of their shard. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_FLEET_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_FLEET_H

#include "service/locks.h"
#include "service/store/clickhouse/http/http.h"
#include "service/store/clickhouse/wire/native.h"
#include "service/store/clickhouse/wire/row_binary.h"

#define FLEET_NO_SHARD UINT32_MAX

struct fleet_server {
    struct http_server *http;
    _Atomic uint32_t shard; /* from 0; FLEET_NO_SHARD = not known yet */
};

struct fleet_shard {
    _Atomic size_t server; /* that takes the inserts at the moment; changed by puts only */
    /* An insert whose outcome is unknown, and that may still be running on `server`. */
    char unsettled[40];
    bool is_fresh; /* `server` has not been asked yet whether it has all that others wrote */
};

struct text_cache;

struct fleet {
    struct store store; /* first */
    struct store_limits limits;
    struct http_shared shared;
    struct http_settings settings;
    struct fleet_server servers[HTTP_MAX_SERVERS];
    size_t server_count;
    struct fleet_shard shards[HTTP_MAX_SERVERS];
    _Atomic uint32_t shard_count;
    uint32_t version;            /* of the first server: 18016 = 18.16 */
    int64_t expired_unix_s;      /* maintain: when it last looked for windows by limits.keeps */
    int64_t changes_from_unix_s; /* maintain: changes before it were deleted */
    struct text_cache *cache;
    struct lock put_lock; /* one put at a time: it asks what exists, then inserts */
    struct lock lock;     /* the rest */
    size_t read_server;   /* that answered last */
    char place[512], trouble[256];
};

static inline bool fleet_is_cluster(const struct fleet *fleet) {
    return fleet->settings.cluster[0] != 0;
}
/* "_local" in a cluster, else "". */
static inline const char *fleet_local(const struct fleet *fleet) {
    return fleet_is_cluster(fleet) ? "_local" : "";
}

/* Finds the shards, and creates the database and the tables that are missing. */
SONDE_MUST_USE sonde_err fleet_prepare(struct fleet *fleet, struct sonde_diag *diag);

/* For a server that did not answer before: false if it still does not. */
bool fleet_find_shard(struct fleet *fleet, size_t server);

/* Runs a query on the server that answered last, or on the next one if that does not answer. sql
 * has no format. A sql that failed to grow is SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err fleet_query(struct fleet *fleet, const struct sonde_buf *sql,
                                     const struct store_stop *stop, struct sonde_buf *answer,
                                     struct sonde_diag *diag);
/* The same with a temporary table ids(id UInt64). */
SONDE_MUST_USE sonde_err fleet_query_ids(struct fleet *fleet, const struct sonde_buf *sql,
                                         const uint64_t *ids, size_t count,
                                         const struct store_stop *stop, struct sonde_buf *answer,
                                         struct sonde_diag *diag);
/* Runs a statement on one server. stop and answer may be NULL. */
SONDE_MUST_USE sonde_err fleet_run(struct fleet *fleet, size_t server, const char *sql,
                                   const struct store_stop *stop, struct sonde_buf *answer,
                                   struct sonde_diag *diag);
/* Runs a statement on the server of one shard, and frees it. answer may be NULL. */
SONDE_MUST_USE sonde_err fleet_run_built(struct fleet *fleet, uint32_t shard, struct sonde_buf *sql,
                                         struct sonde_buf *answer, struct sonde_diag *diag);
/* Frees an answer, which counts until then (HTTP_MAX_ANSWERS). */
void fleet_answer_finish(struct fleet *fleet, struct sonde_buf *answer);
/* The shard of a host, and of an id. */
uint32_t fleet_shard_of_text(const struct fleet *fleet, const char *host);
uint32_t fleet_shard_of_id(const struct fleet *fleet, uint64_t id);
/* SONDE_CORRUPT if the answer was malformed. */
SONDE_MUST_USE sonde_err fleet_check(const struct row_binary *rows, struct sonde_diag *diag);

struct fleet_insert {
    const char *table;
    const struct native_column *columns;
    size_t column_count;
    const void *const *items;
    size_t item_count;
    const char *query_id; /* may be NULL */
};
/* After an error the server may still have executed it, or be doing so. */
SONDE_MUST_USE sonde_err fleet_insert_once(struct fleet *fleet, size_t server,
                                           const struct fleet_insert *insert,
                                           struct sonde_diag *diag);
/* Inserts rows of a table on a replica of the shard, trying all of them. For tables that tolerate
 * the same row twice. */
SONDE_MUST_USE sonde_err fleet_insert(struct fleet *fleet, uint32_t shard,
                                      const struct fleet_insert *insert, struct sonde_diag *diag);
/* Moves a shard to its next replica. False if it has no other one that answers. */
bool fleet_next_replica(struct fleet *fleet, uint32_t shard);

/* put.c: windows and totals; put_texts.c: stacks and frames */
sonde_err fleet_put(struct store *store, const struct store_batch *batch,
                    struct store_put_result *result, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err fleet_put_texts(struct fleet *fleet, const struct store_batch *batch,
                                         struct store_put_result *result, struct sonde_diag *diag);
/* texts.c */
sonde_err fleet_stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                       const struct store_stop *stop, struct sonde_arena *arena,
                       struct store_stack **stacks, size_t *found, struct sonde_diag *diag);
sonde_err fleet_frames(struct store *store, const uint64_t *ids, size_t count,
                       const struct store_stop *stop, struct sonde_arena *arena,
                       struct store_frame **frames, size_t *found, struct sonde_diag *diag);
sonde_err fleet_unnamed(struct store *store, size_t limit, struct sonde_arena *arena,
                        struct store_frame **frames, size_t *found, struct sonde_diag *diag);
/* merge.c */
sonde_err fleet_merge(struct store *store, const struct store_query *query,
                      struct sonde_arena *arena, struct store_merge *merge,
                      struct sonde_diag *diag);

/* series.c, totals.c */
sonde_err fleet_series(struct store *store, const struct store_series_query *query,
                       struct sonde_arena *arena, struct store_series_result *result,
                       struct sonde_diag *diag);
sonde_err fleet_totals(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_total_row **result,
                       size_t *row_count, struct store_merge *merge, struct sonde_diag *diag);
sonde_err fleet_hosts(struct store *store, const struct store_query *query,
                      struct sonde_arena *arena, struct store_host **hosts, size_t *count,
                      struct sonde_diag *diag);
/* lists.c. A server that is away is the info's trouble, not an error. */
sonde_err fleet_services(struct store *store, const struct store_query *query,
                         struct sonde_arena *arena, struct store_service **services, size_t *count,
                         struct sonde_diag *diag);
sonde_err fleet_labels(struct store *store, const struct store_query *query, const char *name,
                       size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                       bool *is_cut, struct sonde_diag *diag);
sonde_err fleet_put_change(struct store *store, const struct store_change *change,
                           struct sonde_diag *diag);
sonde_err fleet_changes(struct store *store, const struct store_change_query *query,
                        struct sonde_arena *arena, struct store_change **changes, size_t *count,
                        struct sonde_diag *diag);
sonde_err fleet_lease(struct store *store, const struct store_lease_request *wanted,
                      struct sonde_arena *arena, struct store_lease **live, size_t *count,
                      struct sonde_diag *diag);
sonde_err fleet_info(struct store *store, const struct store_stop *stop, struct store_info *info,
                     struct sonde_diag *diag);
/* Bytes of one replica of each shard. */
SONDE_MUST_USE sonde_err fleet_size(struct fleet *fleet, const struct store_stop *stop,
                                    uint64_t *bytes, struct sonde_diag *diag);
/* expire.c: for maintain. Windows that limits.keeps lets go are deleted by the server some time
 * after fleet_expire, during which fleet_is_expiring. */
SONDE_MUST_USE sonde_err fleet_expire(struct fleet *fleet, int64_t now_unix_s,
                                      struct sonde_diag *diag);
SONDE_MUST_USE sonde_err fleet_is_expiring(struct fleet *fleet, uint32_t shard, bool *is_expiring,
                                           struct sonde_diag *diag);
/* changes.c: for maintain. Changes are deleted by the server some time later. */
SONDE_MUST_USE sonde_err fleet_expire_changes(struct fleet *fleet, int64_t now_unix_s,
                                              struct sonde_diag *diag);
/* maintain.c */
sonde_err fleet_maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag);

#endif
