/* SPDX-License-Identifier: Apache-2.0
 *
 * An insert ends in one of three ways: stored, refused, or unknown (a reset, a timeout). Before an
 * insert, and so before any repetition of one, the store asks which deliveries exist:
 *
 *     settle ──> ask ──> insert the missing ones ──> stored
 *        ▲                      │ unknown
 *        └──────────────────────┘ the same replica while it answers, then the next one
 *
 * "settle" waits until the server does not run the earlier insert any more. Otherwise that one
 * could write after we asked. The insert's query_id says which one it is; the server refuses a
 * second one with the same id. The block is the same in each repetition, so that replicas that know
 * it from each other recognize it, too; but that memory is short, and asking has no limit.
 *
 * Another process may store the same windows, if their sender went there. What it inserts between
 * asking and inserting here would be there twice; so nothing is inserted for a sender that has gone
 * or has waited for long (store_batch.stop), and senders wait longer than that
 * (clients/collect/spool/deliver.c). */
#include "service/store/clickhouse/put.h"
#include "service/store/clickhouse/wire/sql.h"

#include "api/hash_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ATTEMPTS       4
#define SETTLE_TIME_MS 30000
/* More names in a condition than this cost more than they save. */
#define MAX_NAMED 500

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void put_in(struct sonde_buf *sql, const char *name, const char **texts, size_t count) {
    size_t unique = 0;
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(texts[unique - 1], texts[i]) != 0)
            texts[unique++] = texts[i];
    if (unique > MAX_NAMED)
        return;
    sonde_buf_printf(sql, " AND %s IN (", name);
    for (size_t i = 0; i < unique; i++) {
        sonde_buf_puts(sql, i ? ", " : "");
        sql_text(sql, sonde_slice_of(texts[i]));
    }
    sonde_buf_putc(sql, ')');
}

static void pause_ms(unsigned ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* Whether the shard's server runs that query. */
static sonde_err is_running(struct fleet *fleet, uint32_t shard, const char *query_id,
                            bool *running, struct sonde_diag *diag) {
    struct sonde_buf answer = {0};
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.processes WHERE query_id = '%s' FORMAT RowBinary",
             query_id);
    sonde_err err = fleet_run(fleet, fleet->shards[shard].server, sql, NULL, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    if (!err)
        *running = row_binary_u64(&rows) != 0;
    err = err ? err : fleet_check(&rows, diag);
    fleet_answer_finish(fleet, &answer);
    return err;
}

static sonde_err settle(struct fleet *fleet, uint32_t shard, struct sonde_diag *diag) {
    char *query_id = fleet->shards[shard].unsettled;
    bool running = query_id[0] != 0;
    sonde_err err = SONDE_OK;
    for (unsigned waited = 0, ms = 10; running && !err; waited += ms, ms = ms < 500 ? ms * 2 : ms) {
        err = is_running(fleet, shard, query_id, &running, diag);
        if (!err && running && waited > SETTLE_TIME_MS)
            err =
                sonde_fail(diag, SONDE_UNAVAILABLE, "ClickHouse at %s still runs an earlier insert",
                           http_server_name(fleet->servers[fleet->shards[shard].server].http));
        if (!err && running)
            pause_ms(ms);
    }
    if (!err)
        query_id[0] = 0;
    return err;
}

/* A replica that takes over may lack what another one acknowledged: it waits for it here. */
static sonde_err catch_up(struct fleet *fleet, uint32_t shard, const char *table,
                          struct sonde_diag *diag) {
    struct fleet_shard *own = &fleet->shards[shard];
    if (!fleet_is_cluster(fleet) || !own->is_fresh)
        return SONDE_OK;
    struct sonde_buf sql = {0};
    sonde_buf_puts(&sql, "SYSTEM SYNC REPLICA ");
    sql_name(&sql, fleet->settings.database);
    sonde_buf_printf(&sql, ".%s_local", table);
    sonde_err err = sql.failed ? SONDE_OUT_OF_MEMORY
                               : fleet_run(fleet, own->server, sql.data, NULL, NULL, diag);
    sonde_buf_finish(&sql);
    if (err == SONDE_DEADLINE_EXCEEDED)
        err = sonde_fail(diag, SONDE_UNAVAILABLE,
                         "ClickHouse at %s lacks windows that another replica of shard %u has; "
                         "start that replica",
                         http_server_name(fleet->servers[own->server].http), shard + 1);
    return err;
}

static uint32_t hash_of(const struct hash_index *index, const struct delivery *row) {
    return hash_index_words(index, hash_index_mix(index, row->source, row->epoch), row->seq);
}

static struct delivery *find(const struct hash_index *index, struct deliveries *deliveries,
                             const struct delivery *wanted) {
    struct hash_probe probe = hash_probe(hash_of(index, wanted));
    uint32_t number;
    while ((number = hash_index_next(index, &probe)) != HASH_INDEX_NONE) {
        struct delivery *row = &deliveries->rows[number];
        if (row->source == wanted->source && row->epoch == wanted->epoch && row->seq == wanted->seq)
            return row;
    }
    return NULL;
}

/* A delivery that is in the batch twice counts as stored the second time. */
static sonde_err fill_index(struct hash_index *index, struct deliveries *deliveries) {
    hash_index_init(index);
    for (size_t i = 0; i < deliveries->count; i++) {
        struct delivery *row = &deliveries->rows[i];
        row->is_stored = find(index, deliveries, row) != NULL;
        deliveries->duplicates += row->is_stored;
        if (!row->is_stored && !hash_index_add(index, hash_of(index, row), (uint32_t)i))
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

/* Asks which deliveries exist. Returns their number in *found. */
static sonde_err ask(struct fleet *fleet, uint32_t shard, const struct hash_index *index,
                     struct deliveries *deliveries, size_t *found, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_printf(&sql, "SELECT source, epoch, seq FROM %s%s WHERE %s FORMAT RowBinary",
                     deliveries->table, fleet_local(fleet), deliveries->condition.data);
    sonde_err err =
        sql.failed ? SONDE_OUT_OF_MEMORY
                   : fleet_run(fleet, fleet->shards[shard].server, sql.data, NULL, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        struct delivery wanted = {0};
        wanted.source = row_binary_u64(&rows);
        wanted.epoch = row_binary_u32(&rows);
        wanted.seq = row_binary_u64(&rows);
        struct delivery *row = find(index, deliveries, &wanted);
        if (row && row->shard == shard && !row->is_stored) {
            row->is_stored = true;
            ++*found;
        }
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* Collects what the shard lacks, and names the insert after it. */
static size_t missing(struct deliveries *deliveries, uint32_t shard, char query_id[40]) {
    size_t count = 0;
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < deliveries->count; i++) {
        const struct delivery *row = &deliveries->rows[i];
        if (row->is_stored || row->shard != shard)
            continue;
        deliveries->items[count++] = row->item;
        hash = hash_fold(hash ^ row->source, 0xd6e8feb86659fd93u ^ row->seq);
        hash = hash_fold(hash ^ row->epoch, 0xa0761d6478bd642fu);
    }
    snprintf(query_id, 40, "sonde-%u-%016llx", shard + 1, (unsigned long long)hash);
    return count;
}

static void mark_stored(struct deliveries *deliveries, uint32_t shard) {
    for (size_t i = 0; i < deliveries->count; i++)
        if (deliveries->rows[i].shard == shard)
            deliveries->rows[i].is_stored = true;
}

/* One attempt. *existed: deliveries that were found before the insert. */
static sonde_err attempt(struct fleet *fleet, uint32_t shard, const struct hash_index *index,
                         struct deliveries *deliveries, size_t *existed, struct sonde_diag *diag) {
    struct fleet_shard *own = &fleet->shards[shard];
    char query_id[40];
    sonde_err err = settle(fleet, shard, diag);
    if (!err)
        err = catch_up(fleet, shard, deliveries->table, diag);
    if (!err)
        err = ask(fleet, shard, index, deliveries, existed, diag);
    size_t count = err ? 0 : missing(deliveries, shard, query_id);
    if (count > 0 && store_stop_check(deliveries->stop, NULL) != SONDE_OK)
        err = sonde_fail(diag, SONDE_UNAVAILABLE,
                         "the store was too slow, or the sender has gone; send the windows again");
    if (count == 0 || err)
        return err;
    struct fleet_insert insert = {
        deliveries->table, deliveries->columns, deliveries->column_count, deliveries->items, count,
        query_id};
    err = fleet_insert_once(fleet, own->server, &insert, diag);
    if (err)
        strcpy(own->unsettled, query_id);
    else
        mark_stored(deliveries, shard);
    return err;
}

static bool has_rows(const struct deliveries *deliveries, uint32_t shard) {
    for (size_t i = 0; i < deliveries->count; i++)
        if (deliveries->rows[i].shard == shard && !deliveries->rows[i].is_stored)
            return true;
    return false;
}

static sonde_err put_shard(struct fleet *fleet, uint32_t shard, const struct hash_index *index,
                           struct deliveries *deliveries, struct sonde_diag *diag) {
    struct fleet_shard *own = &fleet->shards[shard];
    sonde_err err = SONDE_OK;
    for (int i = 0; i < ATTEMPTS && has_rows(deliveries, shard); i++) {
        size_t existed = 0;
        err = attempt(fleet, shard, index, deliveries, &existed, diag);
        if (i == 0)
            deliveries->duplicates += existed;
        if (!err || err == SONDE_OUT_OF_MEMORY)
            return err;
        struct sonde_diag away = {0};
        if (own->unsettled[0] && settle(fleet, shard, &away) == SONDE_OK)
            continue;
        if (!fleet_next_replica(fleet, shard))
            return err;
        own->unsettled[0] = 0; /* on a server that is away */
    }
    return err;
}

sonde_err put_once(struct fleet *fleet, struct deliveries *deliveries, struct sonde_diag *diag) {
    struct hash_index index;
    sonde_err err = fill_index(&index, deliveries);
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++)
        err = put_shard(fleet, shard, &index, deliveries, diag);
    hash_index_finish(&index);
    return err;
}
