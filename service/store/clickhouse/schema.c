/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables, in words that servers of 2018 and of today understand: no CODEC, TTL, skipping index,
 * LowCardinality, Map or DateTime64. What has them should set the compression to zstd in the
 * server's configuration; it halves the size.
 *
 *     samples       a window: labels and thread names once, values in three columns of arrays
 *     stacks        frames of a stack, by service
 *     frames        raw frames: they never change
 *     symbols       names of frames; the row with the largest version counts
 *     changes       what a watcher found; on the first shard
 *     host_totals   CPU time of the processes and threads of a host in an interval
 *     leases        who of a group of controllers is alive; on the first shard
 *     rollup_h      sums of an hour by stack and thread; rollup_windows says which are valid */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table {
    const char *name, *columns, *engine, *partition, *order;
} tables[] = {
    {"samples",
     "ts DateTime('UTC'), window_s UInt16, period_ns UInt64, weight Float64, event String, "
     "service String, host String, instance String, pid UInt32, start Int64, source UInt64, "
     "epoch UInt32, seq UInt64, clock String, samples UInt64, dropped UInt64, truncated UInt64, "
     "label_names Array(String), label_values Array(String), threads Array(String), "
     "s Nested(stack UInt64, thread UInt64, value Int64), cpu_ms UInt32, cpu_clock_ms UInt64",
     "MergeTree", "intDiv(toUInt32(ts), 86400)", "(event, service, ts, host, pid)"},
    {"stacks", "service String, stack UInt64, frames Array(UInt64), first_seen DateTime('UTC')",
     "ReplacingMergeTree", "tuple()", "(service, stack)"},
    {"frames",
     "frame UInt64, build_id String, module String, address UInt64, kind UInt8, "
     "first_seen DateTime('UTC')",
     "ReplacingMergeTree", "tuple()", "frame"},
    {"symbols", "frame UInt64, version UInt32, l Nested(function String, file String, line UInt32)",
     "ReplacingMergeTree", "tuple()", "frame"},
    {"leases", "lease_group String, holder String, renewed UInt32, duration_s UInt32",
     "ReplacingMergeTree", "tuple()", "(lease_group, holder)"},
    {"changes", "ts DateTime('UTC'), service String, id UInt64, body String", "ReplacingMergeTree",
     "tuple()", "(service, ts, id)"},
    {"host_totals",
     "ts DateTime('UTC'), window_s UInt16, host String, source UInt64, epoch UInt32, seq UInt64, "
     "c Nested(process String, thread String, cpu_ns Int64)",
     "MergeTree", "intDiv(toUInt32(ts), 86400)", "(host, ts)"},
    {"rollup_h",
     "ts DateTime('UTC'), generation UInt64, event String, service String, stack UInt64, "
     "thread UInt64, value Int64, n UInt64",
     "MergeTree", "(toUInt32(ts), generation)", "(event, service, stack)"},
    {"rollup_windows",
     "ts DateTime('UTC'), generation UInt64, shard UInt32, event String, service String, "
     "windows UInt64, expected UInt64, samples UInt64, dropped UInt64, covered_s UInt64, period_ns "
     "UInt64, "
     "begins Array(UInt32), lengths Array(UInt16), threads Array(String), counted_ns Int64, "
     "sampled_ns Int64",
     "ReplacingMergeTree", "intDiv(toUInt32(ts), 86400)", "(event, service, ts, shard)"},
};

/* Columns that databases of Sonde 0.2 do not have. Rows of then have 0 in them. */
static const struct added {
    const char *table, *name, *type;
} added[] = {
    {"samples", "cpu_ms", "UInt32"},
    {"samples", "cpu_clock_ms", "UInt64"},
    {"rollup_windows", "counted_ns", "Int64"},
    {"rollup_windows", "sampled_ns", "Int64"},
};

static void put_engine(struct sonde_buf *sql, const struct fleet *fleet,
                       const struct table *table) {
    static const char *const versions[][2] = {
        {"symbols", "version"}, {"rollup_windows", "generation"}, {"leases", "renewed"}, {"", ""}};
    const char *version = "";
    for (size_t i = 0; versions[i][0][0]; i++)
        if (strcmp(versions[i][0], table->name) == 0)
            version = versions[i][1];
    if (fleet_is_cluster(fleet)) {
        struct sonde_buf path = {0};
        sonde_buf_printf(&path, "/clickhouse/tables/{shard}/%s/%s", fleet->settings.database,
                         table->name);
        sonde_buf_printf(sql, " ENGINE = Replicated%s(", table->engine);
        sql_text(sql, sonde_buf_slice(&path));
        sonde_buf_printf(sql, ", '{replica}'%s%s)", *version ? ", " : "", version);
        sonde_buf_finish(&path);
    } else {
        sonde_buf_printf(sql, " ENGINE = %s(%s)", table->engine, version);
    }
}

static void put_local(struct sonde_buf *sql, const struct fleet *fleet, const struct table *table) {
    sonde_buf_printf(sql, "CREATE TABLE IF NOT EXISTS %s%s (%s)", table->name, fleet_local(fleet),
                     table->columns);
    put_engine(sql, fleet, table);
    sonde_buf_printf(sql, " PARTITION BY %s ORDER BY %s SETTINGS index_granularity = 1024",
                     table->partition, table->order);
    /* Beyond the store's own check: blocks that a replica recognizes as repeated. */
    if (fleet_is_cluster(fleet))
        sonde_buf_puts(sql, ", replicated_deduplication_window = 10000");
}

static void put_distributed(struct sonde_buf *sql, const struct fleet *fleet,
                            const struct table *table) {
    sonde_buf_printf(sql, "CREATE TABLE IF NOT EXISTS %s AS %s_local ENGINE = Distributed(",
                     table->name, table->name);
    sql_name(sql, fleet->settings.cluster);
    sonde_buf_puts(sql, ", ");
    sql_name(sql, fleet->settings.database);
    sonde_buf_printf(sql, ", %s_local)", table->name);
}

static sonde_err run_built(struct fleet *fleet, size_t server, struct sonde_buf *sql,
                           struct sonde_diag *diag) {
    sonde_err err =
        sql->failed ? SONDE_OUT_OF_MEMORY : fleet_run(fleet, server, sql->data, NULL, NULL, diag);
    sonde_buf_finish(sql);
    return err;
}

static sonde_err has_column(struct fleet *fleet, size_t server, const char *table,
                            const struct added *column, bool *has, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_puts(&sql, "SELECT name FROM system.columns WHERE database = ");
    sql_text(&sql, sonde_slice_of(fleet->settings.database));
    sonde_buf_printf(&sql, " AND table = '%s' AND name = '%s' FORMAT RowBinary", table,
                     column->name);
    sonde_err err =
        sql.failed ? SONDE_OUT_OF_MEMORY : fleet_run(fleet, server, sql.data, NULL, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    if (!err)
        *has = row_binary_more(&rows);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* Another program may add the same column at the same time; its statement serves for both. */
static sonde_err add_column(struct fleet *fleet, size_t server, const char *suffix,
                            const struct added *column, struct sonde_diag *diag) {
    char table[64];
    bool has = false;
    snprintf(table, sizeof table, "%s%s", column->table, suffix);
    sonde_err err = has_column(fleet, server, table, column, &has, diag);
    if (err || has)
        return err;
    struct sonde_buf sql = {0};
    sonde_buf_printf(&sql, "ALTER TABLE %s ADD COLUMN %s %s", table, column->name, column->type);
    sonde_err refused = run_built(fleet, server, &sql, diag);
    err = refused ? has_column(fleet, server, table, column, &has, NULL) : SONDE_OK;
    return has ? SONDE_OK : err ? err : refused;
}

/* In a cluster the local tables get them first, then the Distributed tables above these. */
static sonde_err add_columns(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof added / sizeof added[0] && !err; i++) {
        err = add_column(fleet, server, fleet_local(fleet), &added[i], diag);
        if (!err && fleet_is_cluster(fleet))
            err = add_column(fleet, server, "", &added[i], diag);
    }
    return err;
}

static sonde_err create_tables(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && !err; i++) {
        struct sonde_buf sql = {0};
        put_local(&sql, fleet, &tables[i]);
        err = run_built(fleet, server, &sql, diag);
        if (!err && fleet_is_cluster(fleet)) {
            struct sonde_buf distributed = {0};
            put_distributed(&distributed, fleet, &tables[i]);
            err = run_built(fleet, server, &distributed, diag);
        }
    }
    return err ? err : add_columns(fleet, server, diag);
}

/* Runs a statement before the database exists. */
static sonde_err run_outside(struct fleet *fleet, size_t server, const char *sql,
                             struct sonde_buf *answer, struct sonde_diag *diag) {
    struct sonde_buf none = {0};
    struct http_request request = {.sql = sql, .timeout_ms = 30000};
    sonde_err err =
        http_run(fleet->servers[server].http, &request, answer ? answer : &none, NULL, diag);
    fleet_answer_finish(fleet, &none);
    return err;
}

static sonde_err create_database(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    if (strcmp(fleet->settings.database, "default") == 0)
        return SONDE_OK;
    sonde_buf_puts(&sql, "CREATE DATABASE IF NOT EXISTS ");
    sql_name(&sql, fleet->settings.database);
    sonde_err err =
        sql.failed ? SONDE_OUT_OF_MEMORY : run_outside(fleet, server, sql.data, NULL, diag);
    sonde_buf_finish(&sql);
    return err;
}

/* Asks for one text; "" if there are no rows. */
static sonde_err ask(struct fleet *fleet, size_t server, const char *sql, char *text, size_t size,
                     struct sonde_diag *diag) {
    struct sonde_buf answer = {0};
    sonde_err err = run_outside(fleet, server, sql, &answer, diag);
    text[0] = 0;
    if (!err && answer.len) {
        struct row_binary rows = row_binary_of(&answer);
        struct sonde_slice said = row_binary_slice(&rows);
        err = fleet_check(&rows, diag);
        size_t len = said.len < size - 1 ? said.len : size - 1;
        memcpy(text, said.data, len);
        text[len] = 0;
    }
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* The number of the server's shard: that of the cluster's definition whose name, or position, is
 * the macro {shard}. */
static sonde_err find_shard(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    char macro[64], shards[32];
    const char *name = http_server_name(fleet->servers[server].http);
    sonde_err err = ask(fleet, server,
                        "SELECT substitution FROM system.macros WHERE macro = 'shard' "
                        "FORMAT RowBinary",
                        macro, sizeof macro, diag);
    if (!err && !macro[0])
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "ClickHouse at %s has no macros {shard} and {replica}: add <macros> to "
                          "its configuration, or leave cluster= out of the URL",
                          name);
    struct sonde_buf sql = {0};
    sonde_buf_puts(&sql, "SELECT toString(max(shard_num)) FROM system.clusters WHERE cluster = ");
    sql_text(&sql, sonde_slice_of(fleet->settings.cluster));
    sonde_buf_puts(&sql, " FORMAT RowBinary");
    if (!err)
        err = sql.failed ? SONDE_OUT_OF_MEMORY
                         : ask(fleet, server, sql.data, shards, sizeof shards, diag);
    sonde_buf_finish(&sql);
    if (err)
        return err;
    unsigned long count = strtoul(shards, NULL, 10), number = strtoul(macro, NULL, 10);
    if (count == 0 || count > HTTP_MAX_SERVERS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "ClickHouse at %s knows no cluster \"%s\" of at most %d shards", name,
                          fleet->settings.cluster, HTTP_MAX_SERVERS);
    if (number < 1 || number > count)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "ClickHouse at %s: the macro {shard} is \"%s\", but must be a number "
                          "from 1 to %lu, as in the definition of cluster \"%s\"",
                          name, macro, count, fleet->settings.cluster);
    fleet->servers[server].shard = (uint32_t)number - 1;
    fleet->shard_count = (uint32_t)count;
    return SONDE_OK;
}

static sonde_err read_version(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    char text[64], *end;
    sonde_err err =
        ask(fleet, server, "SELECT version() FORMAT RowBinary", text, sizeof text, diag);
    if (err)
        return err;
    unsigned long major = strtoul(text, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    fleet->version = (uint32_t)(major * 1000 + minor);
    if (fleet->version >= 18016)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "ClickHouse at %s has version %lu.%lu; 18.16 or later is needed",
                      http_server_name(fleet->servers[server].http), major, minor);
}

static sonde_err prepare_server(struct fleet *fleet, size_t server, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (fleet_is_cluster(fleet))
        err = find_shard(fleet, server, diag);
    if (!err)
        err = create_database(fleet, server, diag);
    return err ? err : create_tables(fleet, server, diag);
}

bool fleet_find_shard(struct fleet *fleet, size_t server) {
    return read_version(fleet, server, NULL) == SONDE_OK &&
           prepare_server(fleet, server, NULL) == SONDE_OK;
}

/* A server that does not answer is left for later: its shard's other replicas do. */
sonde_err fleet_prepare(struct fleet *fleet, struct sonde_diag *diag) {
    size_t prepared = 0;
    fleet->shard_count = 1;
    for (size_t i = 0; i < fleet->server_count; i++) {
        fleet->servers[i].shard = fleet_is_cluster(fleet) ? FLEET_NO_SHARD : 0;
        sonde_err err = read_version(fleet, i, diag);
        if (err == SONDE_UNAVAILABLE)
            continue;
        if (!err)
            err = prepare_server(fleet, i, diag);
        if (err)
            return err;
        fleet->read_server = i;
        prepared++;
    }
    for (uint32_t shard = 0; shard < fleet->shard_count && prepared; shard++) {
        size_t i = 0;
        while (i < fleet->server_count && fleet->servers[i].shard != shard)
            i++;
        if (i == fleet->server_count)
            return sonde_fail(diag, SONDE_UNAVAILABLE,
                              "shard %u of cluster \"%s\": none of the URLs answers for it; the "
                              "list must have the URL of each replica",
                              shard + 1, fleet->settings.cluster);
        fleet->shards[shard] = (struct fleet_shard){.server = i, .is_fresh = true};
    }
    return prepared ? SONDE_OK : SONDE_UNAVAILABLE;
}
