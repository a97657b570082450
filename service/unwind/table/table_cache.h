/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables by file identity: built once, stored in a directory, handed out as sealed memfds.
 *
 * This process has one memfd per identity, so all guests map the same pages. Concurrent requests
 * for one identity build it once; the others wait. On disk a table is <identity>.unwind, written to
 * a temporary file and renamed. A damaged table or one of another version is deleted and built
 * again. If the directory exceeds its limit, the least recently used tables are deleted. If the
 * disk is full or read-only, only the cache on disk is lost.
 *
 * Thread and signal safety: any thread; a get may build, so call it from a worker. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>

#define UNWIND_CACHE_IDENTITY 224u         /* bytes at most */
#define UNWIND_CACHE_ENTRIES  512u         /* open memfds at most */
#define UNWIND_CACHE_MEMORY   (256u << 20) /* bytes in them at most */
#define UNWIND_CACHE_LIMIT    (1ull << 30) /* default limit of the directory */

struct unwind_cache;

/* Creates dir (0700) if it is missing; NULL = no cache on disk. limit_bytes 0 = UNWIND_CACHE_LIMIT.
 * SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_cache_create(const char *dir, uint64_t limit_bytes,
                                             struct unwind_cache **cache, struct sonde_diag *diag);
/* Call it when no get is running. */
void unwind_cache_destroy(struct unwind_cache *cache);

/* Gets the table of the file behind fd, with the .debug_frame of the debug file behind debug_fd (-1
 * = none). `identity` names the file's contents: a build-id in hex, or another name of letters,
 * digits, '-', '_' and '.', not beginning with '.'. The caller owns *memfd, which has *bytes bytes
 * that are checked and that nobody can change (all seals are set), and is close-on-exec. Errors are
 * those of unwind_table_build; a failure is not cached. */
SONDE_MUST_USE sonde_err unwind_cache_get(struct unwind_cache *cache, const char *identity, int fd,
                                          int debug_fd, struct sonde_diag *diag, int *memfd,
                                          size_t *bytes);
/* The same for a file in memory (the vdso). */
SONDE_MUST_USE sonde_err unwind_cache_get_memory(struct unwind_cache *cache, const char *identity,
                                                 const void *base, size_t size,
                                                 struct sonde_diag *diag, int *memfd,
                                                 size_t *bytes);

struct unwind_cache_counters {
    uint64_t hits, disk_hits, builds, discarded, failures;
};
void unwind_cache_counters(struct unwind_cache *cache, struct unwind_cache_counters *counters);

#endif
