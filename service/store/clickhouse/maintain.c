/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention and rollups. Both work on the tables of one replica of each shard; replication does the
 * rest. Days (UTC) are dropped as a whole. Rebuilding an hour's rollup is idempotent:
 *
 *     1. insert the sums into rollup_h under a new generation
 *     2. insert how many windows they cover into rollup_windows: now queries use that generation
 *     3. ten minutes later drop the old generation, which a query may still have been reading
 *
 * An hour is rebuilt if the number of its windows is not what rollup_windows says: late windows, or
 * a rebuild that was killed. */
#include "service/store/clickhouse/completeness.h"
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_S          3600
#define DAY_S           86400
#define GRACE_S         60  /* after the end of an hour, for windows that are under way */
#define KEEP_OLD_S      600 /* generations that were replaced */
#define HOURS_PER_CALL  200 /* of one shard */
#define GENERATION_UNIT 64  /* shards */

static sonde_err drop(struct fleet *fleet, uint32_t shard, const char *table,
                      const char *partition_id, struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    sonde_buf_printf(&sql, "ALTER TABLE %s%s DROP PARTITION ID ", table, fleet_local(fleet));
    sql_text(&sql, sonde_slice_of(partition_id));
    return fleet_run_built(fleet, shard, &sql, NULL, diag);
}

/* A partition of one shard. */
struct partition {
    const char *table, *id;
    uint32_t shard;
    int64_t day;         /* since 1970 */
    int64_t hour_unix_s; /* rollup_h */
    uint64_t generation; /* rollup_h */
    uint64_t bytes;
};

struct partitions {
    struct sonde_arena arena;
    struct sonde_buf list; /* of struct partition */
};

static struct partition *all(const struct partitions *partitions, size_t *count) {
    *count = partitions->list.len / sizeof(struct partition);
    return (struct partition *)(void *)partitions->list.data;
}

/* A day, or (rollup_h) "HOUR-GENERATION". */
static void read_partition(struct row_binary *rows, uint32_t shard, struct partitions *to) {
    struct partition read = {.shard = shard};
    char *end;
    read.table = row_binary_text(rows, &to->arena);
    read.id = row_binary_text(rows, &to->arena);
    read.bytes = row_binary_u64(rows);
    read.day = strtoll(read.id, &end, 10);
    if (*end == '-') {
        read.hour_unix_s = read.day;
        read.generation = strtoull(end + 1, NULL, 10);
        read.day /= DAY_S;
    }
    sonde_buf_append(&to->list, &read, sizeof read);
}

static sonde_err list_partitions(struct fleet *fleet, struct partitions *to,
                                 struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++) {
        struct sonde_buf sql = {0}, answer = {0};
        sonde_buf_printf(&sql,
                         "SELECT substring(table, 1, length(table) - %zu) AS t, partition_id, "
                         "sum(bytes_on_disk) FROM system.parts WHERE active AND t IN ('samples', "
                         "'host_totals', 'rollup_h', 'rollup_windows') AND database = ",
                         strlen(fleet_local(fleet)));
        sql_text(&sql, sonde_slice_of(fleet->settings.database));
        sonde_buf_puts(&sql, " GROUP BY t, partition_id FORMAT RowBinary");
        err = fleet_run_built(fleet, shard, &sql, &answer, diag);
        struct row_binary rows = row_binary_of(&answer);
        while (!err && row_binary_more(&rows))
            read_partition(&rows, shard, to);
        err = err ? err : fleet_check(&rows, diag);
        fleet_answer_finish(fleet, &answer);
    }
    return !err && to->list.failed ? SONDE_OUT_OF_MEMORY : err;
}

/* Of one table, or (NULL) of all. */
static sonde_err drop_days_before(struct fleet *fleet, const struct partitions *partitions,
                                  const char *table, int64_t day, struct sonde_diag *diag) {
    size_t count;
    struct partition *list = all(partitions, &count);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++)
        if (list[i].day < day && list[i].bytes && (!table || strcmp(list[i].table, table) == 0)) {
            err = drop(fleet, list[i].shard, list[i].table, list[i].id, diag);
            list[i].bytes = 0; /* dropped */
        }
    return err;
}

/* Oldest days first, but never the last one. */
static sonde_err drop_until_small(struct fleet *fleet, const struct partitions *partitions,
                                  struct sonde_diag *diag) {
    size_t count;
    struct partition *list = all(partitions, &count);
    uint64_t bytes;
    sonde_err err = fleet_size(fleet, NULL, &bytes, diag);
    while (!err && bytes > fleet->limits.max_bytes) {
        int64_t first = INT64_MAX, last = 0;
        for (size_t i = 0; i < count; i++) {
            first = list[i].bytes && list[i].day < first ? list[i].day : first;
            last = list[i].bytes && list[i].day > last ? list[i].day : last;
        }
        if (first >= last)
            return SONDE_OK;
        uint64_t freed = 0;
        for (size_t i = 0; i < count; i++)
            freed += list[i].day == first ? list[i].bytes : 0;
        err = drop_days_before(fleet, partitions, NULL, first + 1, diag);
        bytes = bytes > freed ? bytes - freed : 0;
    }
    return err;
}

/* What is known of one hour of one shard. */
struct hour {
    int64_t begin_unix_s;
    uint64_t windows, rolled;
    uint64_t generation; /* the latest that is complete; 0 = none */
};

static struct hour *hour_of(struct sonde_buf *hours, int64_t begin_unix_s) {
    struct hour *list = (struct hour *)(void *)hours->data;
    size_t count = hours->len / sizeof *list;
    for (size_t i = 0; i < count; i++)
        if (list[i].begin_unix_s == begin_unix_s)
            return &list[i];
    struct hour added = {.begin_unix_s = begin_unix_s};
    sonde_buf_append(hours, &added, sizeof added);
    return hours->failed ? NULL : (struct hour *)(void *)hours->data + count;
}

static sonde_err read_hours(struct fleet *fleet, uint32_t shard, int64_t until,
                            struct sonde_buf *hours, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    const char *local = fleet_local(fleet);
    sonde_buf_printf(&sql,
                     "SELECT toInt64(intDiv(toUInt32(ts), 3600)) * 3600 AS h, count(), "
                     "toUInt64(0), toUInt64(0) FROM samples%s WHERE event != 'mem-inuse' AND "
                     "ts < toDateTime(%lld) GROUP BY h UNION ALL "
                     "SELECT toInt64(h) AS h, toUInt64(0), sum(w), max(g) FROM (SELECT "
                     "toUInt32(ts) AS h, argMax(windows, generation) AS w, max(generation) AS g "
                     "FROM rollup_windows%s GROUP BY ts, event, service) GROUP BY h "
                     "FORMAT RowBinary",
                     local, (long long)until, local);
    sonde_err err = fleet_run_built(fleet, shard, &sql, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        struct hour *hour = hour_of(hours, row_binary_i64(&rows));
        if (!hour) {
            err = SONDE_OUT_OF_MEMORY;
            break;
        }
        hour->windows += row_binary_u64(&rows);
        hour->rolled += row_binary_u64(&rows);
        hour->generation += row_binary_u64(&rows);
    }
    err = err ? err : fleet_check(&rows, diag);
    fleet_answer_finish(fleet, &answer);
    return err;
}

static void put_hour(struct sonde_buf *sql, const struct hour *hour) {
    sonde_buf_puts(sql, "event != 'mem-inuse' AND ");
    sql_times(sql, hour->begin_unix_s, hour->begin_unix_s + HOUR_S);
}

static sonde_err roll_sums(struct fleet *fleet, uint32_t shard, const struct hour *hour,
                           uint64_t generation, struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    const char *local = fleet_local(fleet);
    sonde_buf_printf(&sql,
                     "INSERT INTO rollup_h%s (ts, generation, event, service, stack, thread, "
                     "value, n) SELECT toDateTime(%lld), toUInt64(%llu), event, service, stack, "
                     "thread, sum(value), count() FROM samples%s ARRAY JOIN s.stack AS stack, "
                     "s.thread AS thread, s.value AS value PREWHERE ",
                     local, (long long)hour->begin_unix_s, (unsigned long long)generation, local);
    put_hour(&sql, hour);
    sonde_buf_puts(&sql, " GROUP BY event, service, stack, thread");
    return fleet_run_built(fleet, shard, &sql, NULL, diag);
}

/* Three sums over the hour's windows: by begin, for the union of their intervals; by process, for
 * those that would fit; and both of them by service. */
static sonde_err roll_windows(struct fleet *fleet, uint32_t shard, const struct hour *hour,
                              uint64_t generation, struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    const char *local = fleet_local(fleet);
    sonde_buf_printf(
        &sql,
        "INSERT INTO rollup_windows%s (ts, generation, shard, event, service, "
        "windows, expected, samples, dropped, covered_s, period_ns, begins, lengths, "
        "threads, counted_ns, sampled_ns) SELECT toDateTime(%lld), toUInt64(%llu), toUInt32(%u), "
        "event, service, n, e, sm, dr, co, pe, bs, ls, names, cn, sp FROM (SELECT event, service, "
        "sum(c) AS n, sum(x) AS sm, sum(y) AS dr, sum(z) AS co, max(p) AS pe, "
        "groupArray(toUInt32(ts)) AS bs, groupArray(l) AS ls, "
        "groupUniqArrayArray(t) AS names FROM (SELECT event, service, ts, "
        "max(window_s) AS l, count() AS c, sum(samples) AS x, sum(dropped) AS y, "
        "sum(window_s) AS z, any(period_ns) AS p, groupUniqArrayArray(threads) AS t "
        "FROM samples%s WHERE ",
        local, (long long)hour->begin_unix_s, (unsigned long long)generation, (unsigned)shard,
        local);
    put_hour(&sql, hour);
    sonde_buf_printf(&sql,
                     " GROUP BY event, service, ts) GROUP BY event, service) ANY LEFT JOIN "
                     "(SELECT event, service, " SQL_EXPECTED " AS e, " SQL_COUNTED
                     " AS cn, " SQL_SAMPLED " AS sp FROM (SELECT event, service, " SQL_OF_PROCESS
                     " FROM samples%s WHERE ",
                     local);
    put_hour(&sql, hour);
    sonde_buf_puts(&sql, " GROUP BY event, service, cityHash64(" SQL_PROCESS ")) "
                         "GROUP BY event, service) USING event, service");
    return fleet_run_built(fleet, shard, &sql, NULL, diag);
}

static sonde_err roll(struct fleet *fleet, uint32_t shard, struct hour *hour, int64_t now_unix_s,
                      struct sonde_diag *diag) {
    uint64_t generation = (uint64_t)now_unix_s * GENERATION_UNIT + shard;
    while (generation <= hour->generation)
        generation += GENERATION_UNIT;
    sonde_err err = roll_sums(fleet, shard, hour, generation, diag);
    if (!err)
        err = roll_windows(fleet, shard, hour, generation, diag);
    if (!err)
        hour->generation = generation;
    return err;
}

/* Generations of rollup_h that no query uses any more. */
static sonde_err drop_generations(struct fleet *fleet, uint32_t shard, struct sonde_buf *hours,
                                  const struct partitions *partitions, int64_t now_unix_s,
                                  struct sonde_diag *diag) {
    size_t count;
    struct partition *list = all(partitions, &count);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (!list[i].generation || list[i].shard != shard || !list[i].bytes)
            continue;
        struct hour *hour = hour_of(hours, list[i].hour_unix_s);
        if (!hour)
            return SONDE_OUT_OF_MEMORY;
        uint64_t newest =
            list[i].generation > hour->generation ? list[i].generation : hour->generation;
        if (list[i].generation != hour->generation &&
            newest / GENERATION_UNIT + KEEP_OLD_S < (uint64_t)now_unix_s)
            err = drop(fleet, shard, "rollup_h", list[i].id, diag);
    }
    return err;
}

/* What the server deletes at the moment would be in the sums. */
static sonde_err roll_shard(struct fleet *fleet, uint32_t shard, const struct partitions *old,
                            int64_t now_unix_s, struct sonde_diag *diag) {
    struct sonde_buf hours = {0};
    int64_t until = (now_unix_s - GRACE_S) / HOUR_S * HOUR_S;
    bool is_expiring = false;
    sonde_err err =
        fleet->limits.keep_count ? fleet_is_expiring(fleet, shard, &is_expiring, diag) : SONDE_OK;
    if (err || is_expiring)
        return err;
    err = until > 0 ? read_hours(fleet, shard, until, &hours, diag) : SONDE_OK;
    size_t count = hours.len / sizeof(struct hour);
    for (size_t i = 0, done = 0; i < count && done < HOURS_PER_CALL && !err; i++) {
        struct hour *hour = (struct hour *)(void *)hours.data + i;
        if (hour->windows == hour->rolled || hour->windows == 0)
            continue;
        err = roll(fleet, shard, hour, now_unix_s, diag);
        done++;
    }
    if (!err)
        err = drop_generations(fleet, shard, &hours, old, now_unix_s, diag);
    sonde_buf_finish(&hours);
    return err;
}

sonde_err fleet_maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct partitions partitions = {0};
    int64_t longest_s = store_longest_keep_s(&fleet->limits);
    sonde_err err = list_partitions(fleet, &partitions, diag);
    if (!err && fleet->limits.keep_s)
        err = drop_days_before(fleet, &partitions, "host_totals",
                               (now_unix_s - fleet->limits.keep_s) / DAY_S, diag);
    if (!err && longest_s)
        err = drop_days_before(fleet, &partitions, NULL, (now_unix_s - longest_s) / DAY_S, diag);
    if (!err)
        err = fleet_expire(fleet, now_unix_s, diag);
    if (!err)
        err = fleet_expire_changes(fleet, now_unix_s, diag);
    if (!err && fleet->limits.max_bytes)
        err = drop_until_small(fleet, &partitions, diag);
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++)
        err = roll_shard(fleet, shard, &partitions, now_unix_s, diag);
    sonde_buf_finish(&partitions.list);
    sonde_arena_finish(&partitions.arena);
    return err;
}
