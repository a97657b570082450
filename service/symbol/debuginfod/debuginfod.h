/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug files from debuginfod servers, when somebody has named such servers: off by default, since
 * it tells them which programs run here. Never on a request's path: what a module lacks is noted,
 * one thread asks one server at a time through a process of its own (libcurl speaks to the network
 * there, without rights), and what comes is kept as an upload is, under the build-id that was asked
 * for and is found in it. A request meanwhile is answered with what there is.
 *
 * Bounds: 64 build-ids wait, each once; a file is at most 2 GiB and 10 minutes; a server that has
 * nothing is not asked again for an hour, one that fails three times is left alone for five
 * minutes. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DEBUGINFOD_DEBUGINFOD_H
#define SONDE_SERVICE_SYMBOL_DEBUGINFOD_DEBUGINFOD_H

#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_FETCH_ARGUMENT "--symbol-fetch" /* then the server's URL and the build-id */
#define SYMBOL_FETCH_SERVERS  8u
#define SYMBOL_FETCH_WAITING  64u
#define SYMBOL_FETCH_BYTES    ((uint64_t)2 << 30)
#define SYMBOL_FETCH_SECONDS  600
#define SYMBOL_FETCH_ABSENT_S \
    3600 /* so long nobody asks again who was told that there is nothing */
#define SYMBOL_FETCH_RETRY_S     600 /* or when no server could be asked */
#define SYMBOL_FETCH_PAUSE_AFTER 3   /* failures in a row */
#define SYMBOL_FETCH_PAUSE_S     300

/* For the first lines of the service's main, as symbol_worker_is_asked. Library :fetch_worker. */
bool symbol_fetch_is_asked(int argc, char **argv);
int symbol_fetch_main(int argc, char **argv); /* does not return */

enum { SYMBOL_FETCH_OUT = 3 }; /* its one descriptor: an empty file */

enum symbol_fetch_exit {
    SYMBOL_FETCH_DONE = 0,
    SYMBOL_FETCH_ABSENT = 20, /* the server has no such file */
    SYMBOL_FETCH_FAILED,      /* no answer, or not all of it */
    SYMBOL_FETCH_TOO_LARGE,
    SYMBOL_FETCH_NO_LIBRARY, /* libcurl is not installed */
};

struct symbol_store;
struct symbol_fetch;

/* urls: separated by blanks. Starts the thread. SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err symbol_fetch_create(struct symbol_store *store, const char *urls,
                                             struct symbol_fetch **fetch, struct sonde_diag *diag);
/* After symbol_store_end. NULL is fine. */
void symbol_fetch_destroy(struct symbol_fetch *fetch);
/* Notes that a debug file of that build-id would be welcome; fetch NULL: nothing happens. False
 * when nobody will look for it. */
bool symbol_fetch_want(struct symbol_fetch *fetch, const char *build_id);
/* Whether it may still come. */
bool symbol_fetch_is_under_way(struct symbol_fetch *fetch, const char *build_id);
/* Ask again for what was not found. */
void symbol_fetch_forget(struct symbol_fetch *fetch);

#endif
