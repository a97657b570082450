/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing, the connections, and the store's state. */
#include "service/store/sqlite/sqlite.h"

#include "api/base/clock.h"
#include "service/store/leases.h"
#include "service/store/sqlite/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A connection that is free, open ones first; -1 if there is none. */
static int free_reader(const struct engine *engine) {
    int found = -1;
    for (int i = 0; i < ENGINE_READERS; i++)
        if (!engine->is_used[i] && (found < 0 || !engine->is_open[found]))
            found = i;
    return found;
}

struct db *engine_read(struct engine *engine) {
    int at;
    lock_take(&engine->read_lock);
    while ((at = free_reader(engine)) < 0)
        lock_wait(&engine->read_lock, &engine->reader_is_free);
    engine->is_used[at] = true;
    lock_drop(&engine->read_lock);
    struct db *db = &engine->readers[at];
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    if (!engine->is_open[at])
        err = db_open(db, engine->writer.path, engine->is_read_only ? DB_READ_ONLY_DISK : DB_READ,
                      &diag);
    if (err)
        db_fail(db, err, sonde_diag_text(&diag, err));
    engine->is_open[at] = !err;
    db_begin_reading(db);
    return db;
}

sonde_err engine_read_end(struct engine *engine, struct db *db, struct sonde_diag *diag) {
    sonde_err err = db_end(db, diag);
    long at = db - engine->readers;
    if (!engine->is_open[at])
        db_close(db);
    lock_take(&engine->read_lock);
    engine->is_used[at] = false;
    pthread_cond_signal(&engine->reader_is_free);
    lock_drop(&engine->read_lock);
    return err;
}

sonde_err engine_note(struct engine *engine, sonde_err err, struct sonde_diag *diag) {
    if (err == SONDE_INVALID_ARGUMENT)
        return err;
    lock_take(&engine->read_lock);
    snprintf(engine->trouble, sizeof engine->trouble, "%s", err ? sonde_diag_text(diag, err) : "");
    lock_drop(&engine->read_lock);
    return err;
}

/* 0 = there is none. */
static uint64_t inode_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

sonde_err engine_check_file(const struct engine *engine, struct sonde_diag *diag) {
    if (inode_of(engine->writer.path) == engine->inode)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_UNAVAILABLE,
                      "%s was removed or replaced while it was open; restart the service, which "
                      "opens it again",
                      engine->writer.path);
}

static int64_t log_bytes(const struct engine *engine) {
    char path[sizeof engine->writer.path + 8];
    snprintf(path, sizeof path, "%s-wal", engine->writer.path);
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size : 0;
}

sonde_err engine_lease(struct store *store, const struct store_lease_request *wanted,
                       struct sonde_arena *arena, struct store_lease **live, size_t *count,
                       struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    return leases_renew(engine->leases, wanted, clock_ms(CLOCK_MONOTONIC), arena, live, count,
                        diag);
}

sonde_err engine_info(struct store *store, const struct store_stop *stop, struct store_info *info,
                      struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    *info = (struct store_info){.engine = "sqlite",
                                .keep_s = engine->limits.keep_s,
                                .size_limit_bytes = engine->limits.max_bytes};
    snprintf(info->place, sizeof info->place, "%s", engine->directory);
    lock_take(&engine->read_lock);
    snprintf(info->trouble, sizeof info->trouble, "%s", engine->trouble);
    lock_drop(&engine->read_lock);
    struct db *db = engine_read(engine);
    sqlite3_stmt *row = db_start(db, HOUR_TOTALS, "");
    if (db_row(db, row)) {
        info->first_unix_s = sqlite3_column_int64(row, 0);
        info->last_unix_s = sqlite3_column_int64(row, 1);
        info->windows = (uint64_t)sqlite3_column_int64(row, 2);
        info->samples = (uint64_t)sqlite3_column_int64(row, 3);
        info->dropped = (uint64_t)sqlite3_column_int64(row, 4);
    }
    db_stop(row);
    info->stacks = (uint64_t)db_number(db, 0, COUNT_STACKS, "");
    info->frames = (uint64_t)db_number(db, 0, COUNT_FRAMES, "");
    info->hosts = (uint32_t)db_number(db, 0, COUNT_HOSTS, "");
    info->size_bytes = (uint64_t)(db_number(db, 0, PAGE_COUNT, "") * DB_PAGE + log_bytes(engine));
    return engine_read_end(engine, db, diag);
}

static void engine_close(struct store *store) {
    struct engine *engine = (struct engine *)store;
    for (int i = 0; i < ENGINE_READERS; i++)
        db_close(&engine->readers[i]);
    db_close(&engine->writer);
    numbers_finish(&engine->numbers);
    free(engine->frame_ids);
    leases_destroy(engine->leases);
    lock_finish(&engine->write_lock);
    lock_finish(&engine->read_lock);
    lock_finish(&engine->names_lock);
    pthread_cond_destroy(&engine->reader_is_free);
    if (engine->lock_file >= 0)
        close(engine->lock_file);
    free(engine);
}

static const struct store_ops operations = {
    .put = engine_put,
    .merge = engine_merge,
    .stacks = engine_stacks,
    .frames = engine_frames,
    .unnamed = engine_unnamed,
    .series = engine_series,
    .totals = engine_totals,
    .hosts = engine_hosts,
    .services = engine_services,
    .labels = engine_labels,
    .lease = engine_lease,
    .put_change = engine_put_change,
    .changes = engine_changes,
    .info = engine_info,
    .maintain = engine_maintain,
    .close = engine_close,
};

/* The directory and those above it. */
static sonde_err make_directory(const char *directory, struct sonde_diag *diag) {
    char path[sizeof((struct engine *)0)->directory];
    snprintf(path, sizeof path, "%s", directory);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return SONDE_OK;
    return sonde_fail_os(diag, errno, "cannot create the history's directory %s", directory);
}

/* SQLite would let two services write, but each has numbers and limits of its own. */
static sonde_err take_file(struct engine *engine, struct sonde_diag *diag) {
    char path[sizeof engine->directory + 16];
    snprintf(path, sizeof path, "%s/history.lock", engine->directory);
    engine->lock_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (engine->lock_file < 0)
        return sonde_fail_os(diag, errno, "cannot open %s; check the directory's permissions",
                             path);
    if (flock(engine->lock_file, LOCK_EX | LOCK_NB) == 0)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_UNAVAILABLE,
                      "another service uses the history in %s; stop it, or use another directory",
                      engine->directory);
}

/* Without its files. */
static sonde_err create(const char *directory, const struct store_limits *limits,
                        struct engine **created, struct sonde_diag *diag) {
    struct engine *engine = calloc(1, sizeof *engine);
    *created = engine;
    if (!engine)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the history");
    engine->base.ops = &operations;
    engine->limits = limits ? *limits : (struct store_limits){0};
    engine->lock_file = -1;
    engine->leases = leases_create();
    lock_init(&engine->write_lock, LOCK_STORE_WRITER);
    lock_init(&engine->read_lock, LOCK_STORE_READERS);
    lock_init(&engine->names_lock, LOCK_STORE_NAMES);
    pthread_cond_init(&engine->reader_is_free, NULL);
    int len = snprintf(engine->directory, sizeof engine->directory, "%s", directory);
    if (len <= 0 || (size_t)len >= sizeof engine->directory)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the history's directory must have 1 to 447 bytes");
    if (!engine->leases)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the history");
    return SONDE_OK;
}

/* The store, or nothing after an error. */
static sonde_err give(struct engine *engine, sonde_err err, struct store **store) {
    *store = err ? NULL : &engine->base;
    if (err && engine)
        engine_close(&engine->base);
    return err;
}

sonde_err sqlite_store_open(const char *directory, const struct store_limits *limits,
                            struct store **store, struct sonde_diag *diag) {
    struct engine *engine;
    char path[sizeof engine->directory + 16];
    snprintf(path, sizeof path, "%.447s/history.db", directory);
    sonde_err err = create(directory, limits, &engine, diag);
    if (!err)
        err = make_directory(directory, diag);
    if (!err)
        err = take_file(engine, diag);
    if (!err)
        err = db_open(&engine->writer, path, DB_WRITE, diag);
    if (!err)
        engine->inode = inode_of(path);
    return give(engine, err, store);
}

sonde_err sqlite_store_open_read_only(const char *directory, const struct store_limits *limits,
                                      struct store **store, struct sonde_diag *diag) {
    struct engine *engine;
    sonde_err err = create(directory, limits, &engine, diag);
    /* On another disk somebody may write to the file, and what was read could be torn. */
    if (!err && (access(directory, W_OK) == 0 || errno != EROFS))
        err = sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s is not on a read-only disk", directory);
    if (!err) {
        engine->is_read_only = true;
        snprintf(engine->writer.path, sizeof engine->writer.path, "%s/history.db", directory);
        err = engine_read_end(engine, engine_read(engine), diag);
    }
    return give(engine, err, store);
}
