/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a worker built no table. The reason is saved beside the tables, so that a file that cannot be
 * read costs one worker run instead of one per request. The run is repeated after an hour, when the
 * file or the worker program has changed, and when the file's tables are evicted. Thread safety:
 * any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FAILURE_H
#define SONDE_SERVICE_SYMBOL_FILES_FAILURE_H

#include "service/symbol/files/table_cache.h"

#define SYMBOL_FAILURE_RETRY_S 3600
#define SYMBOL_FAILURE_TEXT    160 /* as SYMBOL_SENTENCE */

enum symbol_failure_cause {
    SYMBOL_FAILURE_NONE = 0,
    SYMBOL_FAILURE_MEMORY,      /* the worker hit its memory limit */
    SYMBOL_FAILURE_TIME,        /* the worker hit its time limit */
    SYMBOL_FAILURE_CRASHED,     /* a signal killed the worker */
    SYMBOL_FAILURE_BROKEN,      /* the file is damaged */
    SYMBOL_FAILURE_IO,          /* the table could not be written */
    SYMBOL_FAILURE_CONFINED,    /* the worker could not drop its privileges and read nothing */
    SYMBOL_FAILURE_NOT_STARTED, /* there was no worker */
    SYMBOL_FAILURE_NO_SPACE,    /* the disk was too full for the worker's scratch files */
    SYMBOL_FAILURE_CAUSES
};

struct symbol_failure {
    enum symbol_failure_cause cause;
    int signal;       /* that killed the worker; 0 = none */
    int64_t unix_s;   /* when the run ended */
    uint64_t subject; /* a hash of the worker program and the files that it read */
};

/* The failure of a worker that ended without a table. status is waitpid's, cpu_ms the CPU time it
 * used; was_late: it was killed after its timeout. */
struct symbol_failure symbol_failure_of(int status, uint64_t cpu_ms, bool was_late);
/* Whether it is too early for another run with this subject. */
bool symbol_failure_stands(const struct symbol_failure *failure, uint64_t subject);
/* A sentence for users; empty if there was no failure. */
void symbol_failure_text(const struct symbol_failure *failure, char text[SYMBOL_FAILURE_TEXT]);

/* Saved in the cache as <identity>.<kind>-failed; without a cache directory it is not saved. */
void symbol_failure_save(const struct symbol_cache *cache, const char *identity, const char *kind,
                         const struct symbol_failure *failure);
/* False if none is saved. */
bool symbol_failure_find(const struct symbol_cache *cache, const char *identity, const char *kind,
                         struct symbol_failure *failure);
void symbol_failure_forget(const struct symbol_cache *cache, const char *identity,
                           const char *kind);

#endif
