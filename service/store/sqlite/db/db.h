/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to the file, and its prepared statements (statements.c).
 *
 * The first failure of a series of calls is kept: later calls do nothing, and db_end returns it as
 * a sentence. So a transaction is written down without a check per statement. Thread safety: one
 * thread at a time per connection. */
#ifndef SONDE_SERVICE_STORE_SQLITE_DB_DB_H
#define SONDE_SERVICE_STORE_SQLITE_DB_DB_H

#include "api/error.h"
#include "service/store/sqlite/db/statements.h"
#include "service/store/sqlite/format/pack.h"

#include <sqlite3.h>
#include <stdbool.h>

#define DB_PAGE 8192 /* bytes of a page */

struct db {
    sqlite3 *handle;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    struct packer packer;
    struct sonde_buf scratch; /* for what is about to be compressed */
    char path[512];
    sonde_err failure; /* of the series, with its sentence */
    struct sonde_diag diag;
};

enum db_use {
    DB_WRITE, /* creates the file and its tables */
    DB_READ,
    DB_READ_ONLY_DISK, /* reads without a writer, on a disk that cannot be written */
};

/* Opens the file. SONDE_NOT_AVAILABLE: it is something else, or another Sonde's. db is zeroed
 * memory; db_close frees it in any case. */
SONDE_MUST_USE sonde_err db_open(struct db *db, const char *path, enum db_use use,
                                 struct sonde_diag *diag);
void db_close(struct db *db);

/* Starts a statement. Each letter of types is an argument: i int64_t, t text (const char *), b
 * struct sonde_slice (blob), n NULL (without an argument). Texts and blobs must live until the next
 * row is read, or the statement's next start. NULL after a failure. */
sqlite3_stmt *db_start(struct db *db, enum statement statement, const char *types, ...);
/* Whether there is another row. After the last one, the statement is reset. */
bool db_row(struct db *db, sqlite3_stmt *statement);
/* Ends a statement before its last row. */
void db_stop(sqlite3_stmt *statement);
/* Starts it and runs it to its end. */
void db_run(struct db *db, enum statement statement, const char *types, ...);
/* The first column of the first row, or otherwise. */
int64_t db_number(struct db *db, int64_t otherwise, enum statement statement, const char *types,
                  ...);
int64_t db_last_rowid(struct db *db);
struct sonde_slice db_blob(sqlite3_stmt *statement, int column);
const char *db_text(sqlite3_stmt *statement, int column); /* never NULL */

/* Compresses db->scratch and empties it. */
struct sonde_slice db_pack(struct db *db, int level);
/* Expands a blob; a damaged one is a failure. */
struct sonde_slice db_unpack(struct db *db, struct sonde_slice packed);

void db_begin(struct db *db);         /* a transaction that writes */
void db_begin_reading(struct db *db); /* a snapshot */
void db_fail(struct db *db, sonde_err err, const char *text);
void db_damaged(struct db *db); /* what was read contradicts itself */
void db_out_of_memory(struct db *db);
/* Commits, or rolls back after a failure, and returns the failure. */
SONDE_MUST_USE sonde_err db_end(struct db *db, struct sonde_diag *diag);
/* Without a transaction. */
SONDE_MUST_USE sonde_err db_result(struct db *db, struct sonde_diag *diag);

#endif
