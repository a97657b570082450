/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/db/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APPLICATION_ID 0x536f6e64 /* "Sond" */
#define FILE_VERSION   1

/* A full disk has several names. */
static bool is_full(int code, int os_error) {
    return code == SQLITE_FULL || os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
}

static void keep_failure(struct db *db, int code) {
    int primary = code & 0xff;
    /* SQLite does not keep the errno of a failed commit. */
    int os_error = errno;
    if (primary != SQLITE_IOERR && primary != SQLITE_CANTOPEN)
        os_error = 0;
    else if (sqlite3_system_errno(db->handle))
        os_error = sqlite3_system_errno(db->handle);
    struct sonde_diag *diag = &db->diag;
    *diag = (struct sonde_diag){0};
    if (is_full(primary, os_error))
        sonde_fail(diag, SONDE_UNAVAILABLE,
                   "the disk is full: %s cannot grow; free some space, or limit the history's size",
                   db->path);
    else if (primary == SQLITE_READONLY || os_error == EROFS)
        sonde_fail(diag, SONDE_UNAVAILABLE,
                   "%s is read-only; make it and its directory writable, or use another directory",
                   db->path);
    else if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
        sonde_fail(diag, SONDE_IO,
                   "%s is damaged; move it and %s-wal away and restart, which starts a new history",
                   db->path, db->path);
    else if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
        sonde_fail(diag, SONDE_UNAVAILABLE, "another program has locked %s; close that program",
                   db->path);
    else if (primary == SQLITE_NOMEM)
        sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the history");
    else if (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)
        sonde_fail(diag, SONDE_UNAVAILABLE, "cannot read or write %s: %s", db->path,
                   os_error ? strerror(os_error) : sqlite3_errstr(code));
    else
        sonde_fail(diag, SONDE_INTERNAL, "history: %s", sqlite3_errmsg(db->handle));
    db->failure = diag->code;
}

static void check(struct db *db, int code) {
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE && !db->failure)
        keep_failure(db, code);
}

void db_fail(struct db *db, sonde_err err, const char *text) {
    if (db->failure)
        return;
    db->failure = sonde_fail(&db->diag, err, "%s", text);
}

void db_damaged(struct db *db) {
    check(db, SQLITE_CORRUPT);
}

void db_out_of_memory(struct db *db) {
    check(db, SQLITE_NOMEM);
}

static void execute(struct db *db, const char *sql) {
    errno = 0;
    if (!db->failure)
        check(db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

static int64_t pragma(struct db *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int64_t number = 0;
    if (!db->failure)
        check(db, sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL));
    if (db_row(db, statement))
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

static void create(struct db *db) {
    char sql[96];
    execute(db, "BEGIN IMMEDIATE");
    execute(db, statement_schema());
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, FILE_VERSION);
    execute(db, sql);
    execute(db, "COMMIT");
}

static void check_version(struct db *db) {
    int64_t application = pragma(db, "PRAGMA application_id");
    int64_t version = pragma(db, "PRAGMA user_version");
    if (application == 0 && version == 0 && pragma(db, "PRAGMA schema_version") == 0) {
        create(db);
        return;
    }
    char text[sizeof db->diag.text];
    if (application != APPLICATION_ID)
        snprintf(text, sizeof text,
                 "%s is another program's file; use another directory for the history", db->path);
    else
        snprintf(text, sizeof text,
                 "%s is in format %lld, this Sonde reads format %d; %s or use another directory",
                 db->path, (long long)version, FILE_VERSION,
                 version < FILE_VERSION ? "the file is older than this Sonde: move it away,"
                                        : "update Sonde,");
    if (application != APPLICATION_ID || version != FILE_VERSION)
        db_fail(db, SONDE_NOT_AVAILABLE, text);
}

/* page_size and auto_vacuum only have an effect on an empty file. There is no mmap: a damaged disk
 * would then raise SIGBUS instead of an error. */
static const char settings[] = "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL;"
                               "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                               "PRAGMA journal_size_limit = 33554432;"
                               "PRAGMA wal_autocheckpoint = 2000;"
                               "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384";

/* Read something before the settings change a file that is not ours. */
static void begin_writing(struct db *db) {
    pragma(db, "PRAGMA application_id");
    int64_t schema = pragma(db, "PRAGMA schema_version");
    if (schema != 0)
        check_version(db);
    execute(db, settings);
    if (schema == 0)
        check_version(db);
    execute(db, statement_later_schema());
}

static bool has_log(const char *path) {
    char log[sizeof((struct db *)0)->path + 8];
    snprintf(log, sizeof log, "%s-wal", path);
    return access(log, F_OK) == 0;
}

/* SQLite reads a file in WAL mode on a read-only disk if it has its log, or never changes. */
static void name_read_only(const char *path, struct sonde_buf *uri) {
    sonde_buf_puts(uri, "file:");
    for (const char *at = path; *at; at++)
        sonde_buf_printf(uri, strchr("%?#", *at) ? "%%%02x" : "%c", *at);
    sonde_buf_puts(uri, has_log(path) ? "" : "?immutable=1");
}

sonde_err db_open(struct db *db, const char *path, enum db_use use, struct sonde_diag *diag) {
    static const int flags[] = {
        [DB_WRITE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [DB_READ] = SQLITE_OPEN_READWRITE,
        [DB_READ_ONLY_DISK] = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
    };
    struct sonde_buf uri = {0};
    snprintf(db->path, sizeof db->path, "%s", path);
    if (use == DB_READ_ONLY_DISK)
        name_read_only(path, &uri);
    if (uri.failed)
        db_out_of_memory(db);
    else
        check(db, sqlite3_open_v2(uri.data ? uri.data : path, &db->handle,
                                  flags[use] | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL));
    sonde_buf_finish(&uri);
    if (db->handle)
        sqlite3_busy_timeout(db->handle, 2000);
    if (use == DB_WRITE)
        begin_writing(db);
    else
        execute(db, "PRAGMA query_only = 1; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192");
    if (use == DB_READ_ONLY_DISK)
        check_version(db);
    return db_result(db, diag);
}

void db_close(struct db *db) {
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(db->statements[i]);
    sqlite3_close(db->handle);
    pack_finish(&db->packer);
    sonde_buf_finish(&db->scratch);
    *db = (struct db){0};
}

static int bind(sqlite3_stmt *statement, int index, char type, va_list *arguments) {
    if (type == 'i')
        return sqlite3_bind_int64(statement, index, va_arg(*arguments, int64_t));
    if (type == 't')
        return sqlite3_bind_text(statement, index, va_arg(*arguments, const char *), -1,
                                 SQLITE_STATIC);
    if (type != 'b')
        return sqlite3_bind_null(statement, index);
    struct sonde_slice blob = va_arg(*arguments, struct sonde_slice);
    return sqlite3_bind_blob64(statement, index, blob.data ? blob.data : "", blob.len,
                               SQLITE_STATIC);
}

static sqlite3_stmt *start(struct db *db, enum statement number, const char *types,
                           va_list *arguments) {
    if (db->failure)
        return NULL;
    sqlite3_stmt **statement = &db->statements[number];
    if (!*statement)
        check(db, sqlite3_prepare_v3(db->handle, statement_sql(number), -1,
                                     SQLITE_PREPARE_PERSISTENT, statement, NULL));
    else
        sqlite3_reset(*statement);
    for (int i = 0; types[i] && !db->failure; i++)
        check(db, bind(*statement, i + 1, types[i], arguments));
    return db->failure ? NULL : *statement;
}

sqlite3_stmt *db_start(struct db *db, enum statement statement, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    sqlite3_stmt *started = start(db, statement, types, &arguments);
    va_end(arguments);
    return started;
}

bool db_row(struct db *db, sqlite3_stmt *statement) {
    if (!statement)
        return false;
    errno = 0;
    int code = db->failure ? SQLITE_DONE : sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return true;
    check(db, code);
    sqlite3_reset(statement);
    return false;
}

void db_stop(sqlite3_stmt *statement) {
    if (statement)
        sqlite3_reset(statement);
}

void db_run(struct db *db, enum statement number, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    sqlite3_stmt *statement = start(db, number, types, &arguments);
    va_end(arguments);
    while (db_row(db, statement))
        continue;
}

int64_t db_number(struct db *db, int64_t otherwise, enum statement number, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    sqlite3_stmt *statement = start(db, number, types, &arguments);
    va_end(arguments);
    int64_t found = otherwise;
    if (db_row(db, statement) && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        found = sqlite3_column_int64(statement, 0);
    db_stop(statement);
    return found;
}

int64_t db_last_rowid(struct db *db) {
    return sqlite3_last_insert_rowid(db->handle);
}

struct sonde_slice db_blob(sqlite3_stmt *statement, int column) {
    const void *data = sqlite3_column_blob(statement, column);
    return (struct sonde_slice){data, (size_t)sqlite3_column_bytes(statement, column)};
}

const char *db_text(sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

struct sonde_slice db_pack(struct db *db, int level) {
    struct sonde_slice packed = {0};
    if (!db->failure && !db->scratch.failed)
        packed = pack_compress(&db->packer, sonde_buf_slice(&db->scratch), level);
    if (!packed.data)
        db_out_of_memory(db);
    db->scratch.len = 0;
    db->scratch.failed = false;
    return packed;
}

struct sonde_slice db_unpack(struct db *db, struct sonde_slice packed) {
    struct sonde_slice raw = {0};
    if (!db->failure)
        raw = pack_expand(&db->packer, packed);
    if (!raw.data)
        db_damaged(db);
    return raw;
}

void db_begin(struct db *db) {
    db_run(db, DB_BEGIN, "");
}

void db_begin_reading(struct db *db) {
    db_run(db, DB_BEGIN_READING, "");
}

sonde_err db_result(struct db *db, struct sonde_diag *diag) {
    sonde_err err = db->failure;
    if (err && diag)
        *diag = db->diag;
    db->failure = SONDE_OK;
    return err;
}

sonde_err db_end(struct db *db, struct sonde_diag *diag) {
    db_run(db, DB_COMMIT, "");
    sonde_err err = db_result(db, diag);
    if (err && db->handle && !sqlite3_get_autocommit(db->handle)) {
        for (int i = 0; i < STATEMENT_COUNT; i++)
            db_stop(db->statements[i]);
        db_run(db, DB_ROLLBACK, "");
        db->failure = SONDE_OK;
    }
    return err;
}
