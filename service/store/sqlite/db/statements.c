/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys are packed into one integer, so that what is read together is stored together:
 *
 *     chunk.key  = stream << 44 | minute << 17 | part      part: of the puts of one minute
 *     rollup.key = stream << 21 | hour
 *     stack.key  = service << 32 | number                  number: of the service's stacks, dense
 *
 * 64-bit ids are stored as the signed integers with the same bits. */
#include "service/store/sqlite/db/statements.h"

static const char *const sql[STATEMENT_COUNT] = {
    [DB_BEGIN] = "BEGIN IMMEDIATE",
    [DB_BEGIN_READING] = "BEGIN",
    [DB_COMMIT] = "COMMIT",
    [DB_ROLLBACK] = "ROLLBACK",

    [SERVICE_FIND] = "SELECT number FROM service WHERE kind = ?1 AND name = ?2",
    [SERVICE_ADD] = "INSERT INTO service (kind, name) VALUES (?1, ?2)",
    [STREAM_FIND] = "SELECT number FROM stream WHERE service = ?1 AND event = ?2",
    [STREAM_ADD] = "INSERT INTO stream (service, event) VALUES (?1, ?2)",
    /* ?1 kind, ?2 service or '', ?3 event or '' */
    [STREAM_LIST] = "SELECT t.number, s.number, s.name, t.event FROM service s "
                    "JOIN stream t ON t.service = s.number WHERE s.kind = ?1 "
                    "AND (?2 = '' OR s.name = ?2) AND (?3 = '' OR t.event = ?3) "
                    "ORDER BY s.name, t.event",
    [STREAM_KIND] = "SELECT s.kind, t.event FROM stream t JOIN service s ON s.number = t.service "
                    "WHERE t.number = ?1",
    [ALL_STREAMS] = "SELECT t.number, s.number, s.kind FROM stream t "
                    "JOIN service s ON s.number = t.service",
    [LABELS_FIND] = "SELECT number FROM labels WHERE body = ?1",
    [LABELS_ADD] = "INSERT INTO labels (body, host) VALUES (?1, ?2)",
    [LABELS_READ] = "SELECT body FROM labels WHERE number = ?1",

    /* ?2 first and ?3 last key of the service */
    [STACK_FIND] = "SELECT key, frames FROM stack WHERE id = ?1 AND key BETWEEN ?2 AND ?3",
    [STACK_LAST] = "SELECT max(key) FROM stack WHERE key BETWEEN ?1 AND ?2",
    [STACK_ADD] = "INSERT INTO stack (key, id) VALUES (?1, ?2)",
    [STACK_DEFINE] = "UPDATE stack SET frames = ?2 WHERE key = ?1",
    [STACK_ID] = "SELECT id FROM stack WHERE key = ?1",
    [STACK_IDS] = "SELECT key, id FROM stack WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    [STACK_RANGE] = "SELECT key, id, frames FROM stack WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    [MODULE_FIND] = "SELECT number FROM module WHERE build_id = ?1 AND path = ?2",
    [MODULE_ADD] = "INSERT INTO module (build_id, path) VALUES (?1, ?2)",
    [MODULE_READ] = "SELECT build_id, path FROM module WHERE number = ?1",
    [TEXT_FIND] = "SELECT number FROM text WHERE hash = ?1 AND body = ?2",
    [TEXT_ADD] = "INSERT INTO text (hash, body) VALUES (?1, ?2)",
    [TEXT_READ] = "SELECT body, hash FROM text WHERE number = ?1",
    [FRAME_FIND] = "SELECT number, module, address, kind, version, lines, id FROM frame "
                   "WHERE id = ?1",
    [FRAME_NUMBER] = "SELECT number FROM frame WHERE id = ?1",
    [FRAME_READ] = "SELECT number, module, address, kind, version, lines, id FROM frame "
                   "WHERE number = ?1",
    [FRAME_ADD] = "INSERT INTO frame (id) VALUES (?1)",
    [FRAME_DEFINE] = "UPDATE frame SET module = ?2, address = ?3, kind = ?4, version = ?5, "
                     "lines = ?6 WHERE number = ?1",
    [FRAME_RENAME] = "UPDATE frame SET version = ?2, lines = ?3 WHERE number = ?1",
    [FRAME_ID] = "SELECT id FROM frame WHERE number = ?1",
    [FRAME_UNNAMED] = "SELECT number, module, address, kind, version, lines, id FROM frame "
                      "WHERE version = 0 AND module IS NOT NULL ORDER BY number DESC LIMIT ?1",

    [DELIVERY_BEFORE] = "SELECT low, high FROM delivery WHERE source = ?1 AND epoch = ?2 "
                        "AND kind = ?3 AND low <= ?4 ORDER BY low DESC LIMIT 1",
    [DELIVERY_AFTER] = "SELECT low, high FROM delivery WHERE source = ?1 AND epoch = ?2 "
                       "AND kind = ?3 AND low > ?4 ORDER BY low LIMIT 1",
    [DELIVERY_SET] = "INSERT INTO delivery (source, epoch, kind, low, high, last) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE "
                     "SET high = excluded.high, last = max(last, excluded.last)",
    [DELIVERY_DELETE] = "DELETE FROM delivery WHERE source = ?1 AND epoch = ?2 AND kind = ?3 "
                        "AND low = ?4",
    [DELIVERY_EXPIRE] = "DELETE FROM delivery WHERE last < ?1",

    [HOUR_ADD] = "INSERT INTO hour VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE "
                 "SET dirty = 1, windows = windows + excluded.windows, "
                 "samples = samples + excluded.samples, dropped = dropped + excluded.dropped, "
                 "first = min(first, excluded.first), last = max(last, excluded.last)",
    [HOUR_READ] = "SELECT hour, dirty FROM hour WHERE stream = ?1 AND hour BETWEEN ?2 AND ?3 "
                  "ORDER BY hour",
    [HOUR_DIRTY] = "SELECT stream, hour FROM hour WHERE dirty AND hour < ?1 AND stream > 0 LIMIT 1",
    [HOUR_CLEAN] = "UPDATE hour SET dirty = 0 WHERE stream = ?1 AND hour = ?2",
    [HOUR_OLDER] = "SELECT stream, hour FROM hour WHERE hour < ?1 LIMIT 1",
    /* ?1 an hour, ?2 and ?3 the stream and hour to go on after */
    [HOUR_AFTER] = "SELECT h.stream, h.hour, s.kind, s.name, t.event FROM hour h "
                   "JOIN stream t ON t.number = h.stream JOIN service s ON s.number = t.service "
                   "WHERE h.hour < ?1 AND (h.stream, h.hour) > (?2, ?3) "
                   "ORDER BY h.stream, h.hour LIMIT 1",
    [HOUR_OLDEST] = "SELECT min(hour) FROM hour",
    [HOUR_DELETE] = "DELETE FROM hour WHERE stream = ?1 AND hour = ?2",
    [HOUR_TOTALS] =
        "SELECT min(first), max(last), total(windows), total(samples), total(dropped) "
        "FROM hour WHERE stream = 0 OR stream IN (SELECT t.number FROM stream t JOIN service s "
        "ON s.number = t.service WHERE s.kind = 0)",

    [CHUNK_LAST_PART] = "SELECT max(key) FROM chunk WHERE key BETWEEN ?1 AND ?2",
    [CHUNK_ADD] = "INSERT INTO chunk (key, last, body) VALUES (?1, ?2, ?3)",
    /* ?3 a minute: chunks that end earlier are skipped */
    [CHUNK_READ] = "SELECT key, last, body FROM chunk WHERE key BETWEEN ?1 AND ?2 AND last >= ?3 "
                   "ORDER BY key",
    [CHUNK_NEXT] = "SELECT key, last, body FROM chunk WHERE key BETWEEN ?1 AND ?2 "
                   "ORDER BY key LIMIT 1",
    [CHUNK_COUNT] = "SELECT count(*) FROM chunk WHERE key BETWEEN ?1 AND ?2",
    [CHUNK_DELETE] = "DELETE FROM chunk WHERE key BETWEEN ?1 AND ?2",
    [ROLLUP_SET] = "INSERT OR REPLACE INTO rollup (key, tally, body) VALUES (?1, ?2, ?3)",
    [ROLLUP_READ] = "SELECT tally, body FROM rollup WHERE key = ?1",
    [ROLLUP_DELETE] = "DELETE FROM rollup WHERE key = ?1",

    [COUNT_STACKS] = "SELECT count(*) FROM stack",
    [COUNT_FRAMES] = "SELECT count(*) FROM frame",
    [COUNT_HOSTS] = "SELECT count(DISTINCT host) FROM labels",
    [PAGE_COUNT] = "PRAGMA page_count",
    [PAGE_FREE] = "PRAGMA freelist_count",
    [VACUUM_STEP] = "PRAGMA incremental_vacuum(2048)",

    [ALL_HOURS] = "SELECT stream, hour, dirty FROM hour",
    [ALL_STACKS] = "SELECT key, frames FROM stack",
    [STACK_DELETE] = "DELETE FROM stack WHERE key = ?1",
    [ALL_FRAMES] = "SELECT number, module, lines FROM frame",
    [FRAME_DELETE] = "DELETE FROM frame WHERE number = ?1",
    [ALL_TEXTS] = "SELECT number FROM text",
    [TEXT_DELETE] = "DELETE FROM text WHERE number = ?1",
    [ALL_MODULES] = "SELECT number FROM module",
    [MODULE_DELETE] = "DELETE FROM module WHERE number = ?1",
    [ALL_LABELS] = "SELECT number FROM labels",
    [LABELS_DELETE] = "DELETE FROM labels WHERE number = ?1",
    [STREAM_DELETE] = "DELETE FROM stream WHERE number = ?1",
    [CHANGE_ADD] = "INSERT OR IGNORE INTO change (at, service, body) VALUES (?1, ?2, ?3)",
    [CHANGE_LIST] = "SELECT at, service, body FROM change WHERE at >= ?1 AND at < ?2"
                    " AND (?3 = '' OR service = ?3) ORDER BY at DESC, number DESC LIMIT ?4",
    [CHANGE_TABLE] = "SELECT count(*) FROM sqlite_master WHERE name = 'change'",
    [CHANGE_EXPIRE] = "DELETE FROM change WHERE at < ?1 OR number <= "
                      "(SELECT max(number) FROM change) - ?2",
    [SERVICES_UNUSED] = "DELETE FROM service WHERE number NOT IN (SELECT service FROM stream)",
};

const char *statement_sql(enum statement statement) {
    return sql[statement];
}

const char *statement_schema(void) {
    return "CREATE TABLE service (number INTEGER PRIMARY KEY, kind INTEGER, name TEXT,"
           " UNIQUE (kind, name));"
           "CREATE TABLE stream (number INTEGER PRIMARY KEY, service INTEGER, event TEXT,"
           " UNIQUE (service, event));"
           "CREATE TABLE labels (number INTEGER PRIMARY KEY, body BLOB UNIQUE,"
           " host TEXT);"
           "CREATE TABLE hour (stream INTEGER, hour INTEGER, dirty INTEGER, windows INTEGER,"
           " samples INTEGER, dropped INTEGER, first INTEGER, last INTEGER,"
           " PRIMARY KEY (stream, hour)) WITHOUT ROWID;"
           "CREATE INDEX hour_age ON hour (hour);"
           "CREATE INDEX hour_dirty ON hour (hour) WHERE dirty;"
           "CREATE TABLE chunk (key INTEGER PRIMARY KEY, last INTEGER, body BLOB);"
           "CREATE TABLE rollup (key INTEGER PRIMARY KEY, tally BLOB, body BLOB);"
           "CREATE TABLE stack (key INTEGER PRIMARY KEY, id INTEGER, frames BLOB);"
           "CREATE INDEX stack_id ON stack (id);"
           "CREATE TABLE module (number INTEGER PRIMARY KEY, build_id TEXT, path TEXT,"
           " UNIQUE (build_id, path));"
           "CREATE TABLE frame (number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER UNIQUE, "
           "module INTEGER,"
           " address INTEGER, kind INTEGER, version INTEGER, lines BLOB);"
           "CREATE INDEX frame_unnamed ON frame (number) WHERE version = 0"
           " AND module IS NOT NULL;"
           "CREATE TABLE text (number INTEGER PRIMARY KEY, hash INTEGER, body TEXT);"
           "CREATE INDEX text_hash ON text (hash);"
           "CREATE TABLE delivery (source INTEGER, epoch INTEGER, kind INTEGER, low INTEGER,"
           " high INTEGER, last INTEGER, PRIMARY KEY (source, epoch, kind, low)) WITHOUT ROWID;";
}

const char *statement_later_schema(void) {
    return "CREATE TABLE IF NOT EXISTS change (number INTEGER PRIMARY KEY AUTOINCREMENT,"
           " at INTEGER, service TEXT, body BLOB, UNIQUE (at, service, body));";
}
