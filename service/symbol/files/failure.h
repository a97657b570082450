/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a worker gave no table. It is kept beside the tables, so that a file that cannot be converted
 * costs one worker and not one a request: it is tried again when the file or the converter has
 * changed, after an hour, or when somebody evicts it. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FAILURE_H
#define SONDE_SERVICE_SYMBOL_FILES_FAILURE_H

#include "service/symbol/files/table_cache.h"

#define SYMBOL_FAILURE_RETRY_S 3600
#define SYMBOL_FAILURE_TEXT    160 /* as SYMBOL_SENTENCE */

enum symbol_failure_cause {
    SYMBOL_FAILURE_NONE = 0,
    SYMBOL_FAILURE_MEMORY,      /* over the worker's bound */
    SYMBOL_FAILURE_TIME,        /* likewise */
    SYMBOL_FAILURE_CRASHED,     /* of a signal: a hostile file, or a bug that it found */
    SYMBOL_FAILURE_BROKEN,      /* the file is not what it says */
    SYMBOL_FAILURE_IO,          /* the table could not be written */
    SYMBOL_FAILURE_CONFINED,    /* the worker could not give up its rights, and did not begin */
    SYMBOL_FAILURE_NOT_STARTED, /* there was no worker */
    SYMBOL_FAILURE_NO_SPACE,    /* for what the worker keeps on disk meanwhile */
    SYMBOL_FAILURE_CAUSES
};

struct symbol_failure {
    enum symbol_failure_cause cause;
    int signal;       /* that ended the worker; 0 = none */
    int64_t unix_s;   /* when */
    uint64_t subject; /* a hash of converter and file: another one is another matter */
};

/* What to think of a worker that ended without a table. status is waitpid's, cpu_ms what it used;
 * was_late: it was ended for the time it took. */
struct symbol_failure symbol_failure_of(int status, uint64_t cpu_ms, bool was_late);
/* Whether it is too early to try the same subject again. */
bool symbol_failure_stands(const struct symbol_failure *failure, uint64_t subject);
/* A sentence for people; empty for no failure. */
void symbol_failure_text(const struct symbol_failure *failure, char text[SYMBOL_FAILURE_TEXT]);

/* <identity>.<kind>-failed in the cache. Without a directory nothing is kept. */
void symbol_failure_keep(const struct symbol_cache *cache, const char *identity, const char *kind,
                         const struct symbol_failure *failure);
/* False when there is none. */
bool symbol_failure_find(const struct symbol_cache *cache, const char *identity, const char *kind,
                         struct symbol_failure *failure);
void symbol_failure_forget(const struct symbol_cache *cache, const char *identity,
                           const char *kind);

#endif
