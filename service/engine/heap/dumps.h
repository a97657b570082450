/* SPDX-License-Identifier: Apache-2.0
 *
 * The periodic dumps of one target: a directory (0700) of files NNNNNN.heap, and what is known of
 * each. A dump is written under another name, made durable and then renamed: what is listed is
 * whole. The directory is made with the first dump. Thread safety: engine thread only, but
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
    char *dir;               /* NULL = nowhere to keep any */
    struct heap_dump *items; /* oldest first */
    uint32_t count, capacity;
    uint64_t bytes;
    uint32_t last_number;
    uint32_t writes; /* names of unfinished files */
};

/* dir may be NULL; it is looked at, not made. What an earlier sonded left unfinished is removed. */
SONDE_MUST_USE sonde_err heap_dumps_open(struct heap_dumps *dumps, const char *dir);
void heap_dumps_finish(struct heap_dumps *dumps);
/* Makes the directory, so that a refusal comes early. SONDE_IO, SONDE_NOT_AVAILABLE (nowhere). */
SONDE_MUST_USE sonde_err heap_dumps_prepare(const struct heap_dumps *dumps,
                                            struct sonde_diag *diag);

/* A path for the next unfinished file; the caller's to free, NULL when out of memory. */
char *heap_dumps_unfinished(struct heap_dumps *dumps);
/* Worker. Copies fd (all of it, at most limit bytes) to a new file and makes it durable; nothing is
 * left when that fails. SONDE_IO, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err heap_dumps_write(const char *path, int fd, uint64_t limit, uint64_t *bytes,
                                          struct sonde_diag *diag);
/* Gives the finished file its number and place in the list; it is removed when that fails. */
SONDE_MUST_USE sonde_err heap_dumps_add(struct heap_dumps *dumps, const char *path, uint64_t bytes,
                                        uint64_t epoch, struct sonde_diag *diag);
/* Removes the oldest until at most so many, and so many bytes, are left; the newest stays. */
void heap_dumps_prune(struct heap_dumps *dumps, uint32_t keep, uint64_t keep_bytes);
void heap_dumps_delete(struct heap_dumps *dumps);

/* Six digits other than 000000 and ".heap". */
bool heap_dumps_parse_name(const char *name, uint32_t *number);
/* The name of a file that heap_dumps_write had begun. */
bool heap_dumps_is_unfinished(const char *name);
void heap_dumps_name(uint32_t number, char name[HEAP_DUMPS_NAME]);
const struct heap_dump *heap_dumps_find(const struct heap_dumps *dumps, uint32_t number);
/* -1 with errno. */
int heap_dumps_open_file(const struct heap_dumps *dumps, uint32_t number);

#endif
