/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to the servers of a store: which one, with which settings, and what if it is away. */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdio.h>
#include <string.h>

#define INSERT_TIMEOUT_MS 60000
#define ADMIN_TIMEOUT_MS  120000

sonde_err fleet_check(const struct row_binary *rows, struct sonde_diag *diag) {
    if (!rows->failed)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_CORRUPT,
                      "ClickHouse's answer is malformed: is the URL that of its HTTP port?");
}

static bool is_safe(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

static void put_database(struct sonde_buf *parameters, const struct fleet *fleet) {
    sonde_buf_puts(parameters, "&database=");
    for (const char *at = fleet->settings.database; *at; at++)
        if (is_safe(*at))
            sonde_buf_putc(parameters, *at);
        else
            sonde_buf_printf(parameters, "%%%02X", (unsigned char)*at);
}

static void put_limits(struct sonde_buf *parameters, const struct fleet *fleet) {
    sonde_buf_printf(parameters,
                     "&max_execution_time=%llu&max_memory_usage=%llu"
                     "&max_query_size=16777216&max_ast_elements=1000000"
                     "&max_expanded_ast_elements=1000000&max_bytes_before_external_group_by=0",
                     (unsigned long long)fleet->settings.max_execution_time,
                     (unsigned long long)fleet->settings.max_memory_usage);
    /* A row is a window with many samples, so a second thread pays for far fewer rows than
     * ClickHouse expects. */
    sonde_buf_puts(parameters, "&merge_tree_min_rows_for_concurrent_read=1024");
    if (fleet->version >= 20000)
        sonde_buf_puts(parameters, "&merge_tree_min_bytes_for_concurrent_read=1048576");
    /* Never a part of the shards' sums as if it were all. */
    sonde_buf_puts(parameters, "&skip_unavailable_shards=0");
}

static sonde_err run(struct fleet *fleet, size_t server, struct http_request *request,
                     bool has_limits, struct sonde_buf *answer, struct sonde_diag *diag) {
    struct sonde_buf parameters = {0}, none = {0};
    put_database(&parameters, fleet);
    if (has_limits)
        put_limits(&parameters, fleet);
    if (request->body.len)
        sonde_buf_puts(&parameters, "&max_insert_block_size=1048576");
    if (request->body.len && fleet->settings.insert_quorum)
        sonde_buf_printf(&parameters, "&insert_quorum=%llu",
                         (unsigned long long)fleet->settings.insert_quorum);
    request->parameters = parameters.data;
    sonde_err err = parameters.failed ? SONDE_OUT_OF_MEMORY
                                      : http_run(fleet->servers[server].http, request,
                                                 answer ? answer : &none, NULL, diag);
    sonde_buf_finish(&parameters);
    fleet_answer_finish(fleet, &none);
    return err;
}

/* For a lease, SONDE_TOO_MANY_CAPTURES is something else. */
sonde_err fleet_run(struct fleet *fleet, size_t server, const char *sql,
                    const struct store_stop *stop, struct sonde_buf *answer,
                    struct sonde_diag *diag) {
    struct http_request request = {.sql = sql, .timeout_ms = ADMIN_TIMEOUT_MS, .stop = stop};
    sonde_err err = run(fleet, server, &request, false, answer, diag);
    return err == SONDE_TOO_MANY_CAPTURES ? SONDE_UNAVAILABLE : err;
}

sonde_err fleet_run_built(struct fleet *fleet, uint32_t shard, struct sonde_buf *sql,
                          struct sonde_buf *answer, struct sonde_diag *diag) {
    sonde_err err =
        sql->failed ? SONDE_OUT_OF_MEMORY
                    : fleet_run(fleet, fleet->shards[shard].server, sql->data, NULL, answer, diag);
    sonde_buf_finish(sql);
    return err;
}

void fleet_answer_finish(struct fleet *fleet, struct sonde_buf *answer) {
    http_answer_finish(&fleet->shared, answer);
}

/* From the server that answered last to all others. The server's own refusal ends the search. */
static sonde_err run_anywhere(struct fleet *fleet, struct http_request *request,
                              struct sonde_buf *answer, struct sonde_diag *diag) {
    lock_take(&fleet->lock);
    size_t first = fleet->read_server;
    lock_drop(&fleet->lock);
    sonde_err err = SONDE_UNAVAILABLE;
    for (size_t i = 0; i < fleet->server_count && err == SONDE_UNAVAILABLE; i++) {
        size_t server = (first + i) % fleet->server_count;
        err = run(fleet, server, request, true, answer, diag);
        if (!err && i) {
            lock_take(&fleet->lock);
            fleet->read_server = server;
            lock_drop(&fleet->lock);
        }
    }
    return err;
}

static sonde_err query(struct fleet *fleet, const struct sonde_buf *sql,
                       struct http_request request, struct sonde_buf *answer,
                       struct sonde_diag *diag) {
    struct sonde_buf whole = {0};
    sonde_buf_append(&whole, sql->data, sql->len);
    sonde_buf_puts(&whole, " FORMAT RowBinary");
    request.sql = whole.data;
    request.timeout_ms = fleet->settings.max_execution_time * 1000 + 10000;
    sonde_err err = sql->failed || whole.failed ? SONDE_OUT_OF_MEMORY
                                                : run_anywhere(fleet, &request, answer, diag);
    sonde_buf_finish(&whole);
    return err;
}

sonde_err fleet_query(struct fleet *fleet, const struct sonde_buf *sql,
                      const struct store_stop *stop, struct sonde_buf *answer,
                      struct sonde_diag *diag) {
    return query(fleet, sql, (struct http_request){.stop = stop}, answer, diag);
}

sonde_err fleet_query_ids(struct fleet *fleet, const struct sonde_buf *sql, const uint64_t *ids,
                          size_t count, const struct store_stop *stop, struct sonde_buf *answer,
                          struct sonde_diag *diag) {
    struct http_request request = {.ids = ids, .id_count = count, .stop = stop};
    return query(fleet, sql, request, answer, diag);
}

sonde_err fleet_insert_once(struct fleet *fleet, size_t server, const struct fleet_insert *insert,
                            struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, block = {0};
    sonde_buf_printf(&sql, "INSERT INTO %s%s", insert->table, fleet_local(fleet));
    native_names(&sql, insert->columns, insert->column_count);
    sonde_buf_puts(&sql, " FORMAT Native");
    native_block(&block, insert->columns, insert->column_count, insert->items, insert->item_count);
    struct http_request request = {.sql = sql.data,
                                   .body = sonde_buf_slice(&block),
                                   .query_id = insert->query_id,
                                   .timeout_ms = INSERT_TIMEOUT_MS};
    sonde_err err = sql.failed || block.failed ? SONDE_OUT_OF_MEMORY
                                               : run(fleet, server, &request, false, NULL, diag);
    sonde_buf_finish(&sql);
    sonde_buf_finish(&block);
    return err;
}

bool fleet_next_replica(struct fleet *fleet, uint32_t shard) {
    size_t current = fleet->shards[shard].server;
    for (size_t i = 1; i < fleet->server_count; i++) {
        size_t next = (current + i) % fleet->server_count;
        if (fleet->servers[next].shard == FLEET_NO_SHARD)
            (void)fleet_find_shard(fleet, next);
        if (fleet->servers[next].shard != shard)
            continue;
        fleet->shards[shard].server = next;
        fleet->shards[shard].is_fresh = true;
        return true;
    }
    return false;
}

sonde_err fleet_insert(struct fleet *fleet, uint32_t shard, const struct fleet_insert *insert,
                       struct sonde_diag *diag) {
    if (insert->item_count == 0)
        return SONDE_OK;
    sonde_err err = SONDE_UNAVAILABLE;
    for (size_t i = 0; i < fleet->server_count && err == SONDE_UNAVAILABLE; i++) {
        err = fleet_insert_once(fleet, fleet->shards[shard].server, insert, diag);
        if (err == SONDE_UNAVAILABLE && !fleet_next_replica(fleet, shard))
            break;
    }
    return err;
}

uint32_t fleet_shard_of_text(const struct fleet *fleet, const char *host) {
    return (uint32_t)(sql_thread_key(host) % fleet->shard_count);
}

uint32_t fleet_shard_of_id(const struct fleet *fleet, uint64_t id) {
    return (uint32_t)(id % fleet->shard_count);
}
