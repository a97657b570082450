/* SPDX-License-Identifier: Apache-2.0
 *
 * The periodic dumps of one target: a directory (0700) of files NNNNNN.heap, and a list of them. A
 * dump is written under a temporary name, synced and then renamed, so listed dumps are complete.
 * The first dump creates the directory. Thread safety: engine thread only, except
 * heap_dumps_write. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_DUMPS_H
#define SONDE_SERVICE_ENGINE_HEAP_DUMPS_H

#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HEAP_DUMPS_MAX_NUMBER 999999u
#define HEAP_DUMPS_NAME       12u

struct heap_dump {
    uint32_t number;
    int64_t unix_ns;
    uint64_t bytes, epoch;
};

struct heap_dumps {
    char *dir;               /* NULL = there is no data directory */
    struct heap_dump *items; /* oldest first */
    uint32_t count, capacity;
    uint64_t bytes;
    uint32_t last_number;
    uint32_t writes; /* for the names of unfinished files */
};

/* Reads dir (may be NULL) without creating it, and removes files that an earlier sonded left
 * unfinished. */
SONDE_MUST_USE sonde_err heap_dumps_open(struct heap_dumps *dumps, const char *dir);
void heap_dumps_finish(struct heap_dumps *dumps);
/* Creates the directory now, so that errors show early. SONDE_IO, SONDE_NOT_AVAILABLE (dir is
 * NULL). */
SONDE_MUST_USE sonde_err heap_dumps_prepare(const struct heap_dumps *dumps,
                                            struct sonde_diag *diag);

/* The path of the next unfinished file. The caller frees it. NULL when out of memory. */
char *heap_dumps_unfinished(struct heap_dumps *dumps);
/* Copies all of fd, at most `limit` bytes, to a new file and syncs it; leaves nothing behind on
 * failure. SONDE_IO, SONDE_TOO_LARGE. Worker. */
SONDE_MUST_USE sonde_err heap_dumps_write(const char *path, int fd, uint64_t limit, uint64_t *bytes,
                                          struct sonde_diag *diag);
/* Gives the finished file its number and adds it to the list; removes the file on failure. */
SONDE_MUST_USE sonde_err heap_dumps_add(struct heap_dumps *dumps, const char *path, uint64_t bytes,
                                        uint64_t epoch, struct sonde_diag *diag);
/* Removes the oldest dumps past the count and the bytes. The newest always stays. */
void heap_dumps_prune(struct heap_dumps *dumps, uint32_t keep, uint64_t keep_bytes);
void heap_dumps_delete(struct heap_dumps *dumps);

/* Six digits, not 000000, followed by ".heap". */
bool heap_dumps_parse_name(const char *name, uint32_t *number);
/* Whether it is the name of an unfinished file of heap_dumps_write. */
bool heap_dumps_is_unfinished(const char *name);
void heap_dumps_name(uint32_t number, char name[HEAP_DUMPS_NAME]);
const struct heap_dump *heap_dumps_find(const struct heap_dumps *dumps, uint32_t number);
/* -1 and errno on failure. */
int heap_dumps_open_file(const struct heap_dumps *dumps, uint32_t number);

#endif
