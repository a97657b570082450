/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables by file identity: built once, kept in a directory, handed out as sealed memfds.
 *
 * Of one identity there is one memfd in this process, so all guests of the host map the same pages.
 * Concurrent requests for one identity build it once; the others wait. On disk a table is
 * <identity>.unwind, written to a temporary file and renamed; what is damaged or of another version
 * is thrown away and built again; the least recently used go when the directory passes its limit. A
 * full or unwritable disk costs the disk cache only.
 *
 * Thread and signal safety: any thread; a get may build, so call it from a worker. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>

#define UNWIND_CACHE_IDENTITY 128u         /* bytes at most */
#define UNWIND_CACHE_ENTRIES  512u         /* memfds kept open */
#define UNWIND_CACHE_MEMORY   (256u << 20) /* bytes in them; what guests hold on to is theirs */
#define UNWIND_CACHE_LIMIT    (1ull << 30) /* default bound of the directory */

struct unwind_cache;

/* dir is made (0700) when missing; NULL = nothing on disk. limit_bytes 0 = UNWIND_CACHE_LIMIT.
 * SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_cache_create(const char *dir, uint64_t limit_bytes,
                                             struct unwind_cache **cache, struct sonde_diag *diag);
/* No get may be under way. */
void unwind_cache_destroy(struct unwind_cache *cache);

/* The table of the file behind fd, whose contents `identity` names (a build-id in hex, or any other
 * name of letters, digits, '-', '_', '.', not beginning with '.'). *memfd belongs to the caller:
 * read-only for everybody (shrink, grow, write and further seals sealed), close-on-exec, *bytes
 * long, checked. Errors as unwind_table_build's; nothing is remembered of a failure. */
SONDE_MUST_USE sonde_err unwind_cache_get(struct unwind_cache *cache, const char *identity, int fd,
                                          struct sonde_diag *diag, int *memfd, size_t *bytes);
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
