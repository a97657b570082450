/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches debug files from debuginfod servers that the user has named. There is no default server,
 * because a query reveals which programs run here. Requests never wait for a server: a missing
 * debug file is queued, one thread asks one server at a time, and the answer is stored like an
 * upload if it has the build-id that was asked for. A worker process without privileges talks to
 * the server.
 *
 * Limits: 64 queued build-ids; a file has at most 2 GiB and may take 10 minutes; a build-id that no
 * server has is not asked for again for an hour; a server that fails three times in a row is paused
 * for five minutes. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DEBUGINFOD_DEBUGINFOD_H
#define SONDE_SERVICE_SYMBOL_DEBUGINFOD_DEBUGINFOD_H

#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_FETCH_ARGUMENT    "--symbol-fetch" /* then the server's URL and the build-id */
#define SYMBOL_FETCH_SERVERS     8u
#define SYMBOL_FETCH_WAITING     64u
#define SYMBOL_FETCH_BYTES       ((uint64_t)2 << 30)
#define SYMBOL_FETCH_SECONDS     600
#define SYMBOL_FETCH_ABSENT_S    3600 /* until a build-id that no server has is asked for again */
#define SYMBOL_FETCH_RETRY_S     600  /* the same if a server failed */
#define SYMBOL_FETCH_PAUSE_AFTER 3    /* failures in a row */
#define SYMBOL_FETCH_PAUSE_S     300

/* Call these first in main, as symbol_worker_is_asked. */
bool symbol_fetch_is_asked(int argc, char **argv);
int symbol_fetch_main(int argc, char **argv); /* does not return */

enum { SYMBOL_FETCH_OUT = 3 }; /* its only descriptor: an empty file for the answer */

enum symbol_fetch_exit {
    SYMBOL_FETCH_DONE = 0,
    SYMBOL_FETCH_ABSENT = 20, /* the server has no such file */
    SYMBOL_FETCH_FAILED,      /* the server did not answer, or not completely */
    SYMBOL_FETCH_TOO_LARGE,
    SYMBOL_FETCH_NO_LIBRARY, /* libcurl is not installed */
};

struct symbol_store;
struct symbol_fetch;

/* urls are separated by blanks. Starts the thread. SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err symbol_fetch_create(struct symbol_store *store, const char *urls,
                                             struct symbol_fetch **fetch, struct sonde_diag *diag);
/* After symbol_store_end. NULL is fine. */
void symbol_fetch_destroy(struct symbol_fetch *fetch);
/* Queues a build-id. Returns false if no server will be asked: fetch is NULL, the queue is full, or
 * no server had it lately. */
bool symbol_fetch_want(struct symbol_fetch *fetch, const char *build_id);
/* Whether a build-id is queued or being fetched. */
bool symbol_fetch_is_under_way(struct symbol_fetch *fetch, const char *build_id);
/* Allows asking again for build-ids that no server had. */
void symbol_fetch_forget(struct symbol_fetch *fetch);

#endif
