/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables on disk: <identity>.<kind> in one private directory. A table is written to a temporary
 * file, synced and renamed, so that a reader sees all of it or nothing; it is mapped read-only;
 * opening it marks its use, and when the directory grows over its bound the longest unused go first
 * (a mapped table lives on after its name is gone). Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_TABLE_CACHE_H
#define SONDE_SERVICE_SYMBOL_FILES_TABLE_CACHE_H

#include "api/bytes.h"
#include "api/error.h"

struct symbol_cache {
    int directory; /* -1 = no disk cache */
    uint64_t limit;
};

/* Makes the directory (0700) when it is missing. path NULL = no disk cache. SONDE_IO,
 * SONDE_PERMISSION_DENIED when others may write there. */
SONDE_MUST_USE sonde_err symbol_cache_init(struct symbol_cache *cache, const char *path,
                                           uint64_t limit, struct sonde_diag *diag);
void symbol_cache_finish(struct symbol_cache *cache);

/* Bytes of a table: mapped from the cache, or owned when there is no cache. */
struct symbol_image {
    void *bytes;
    size_t len;
    bool is_mapped;
};
void symbol_image_finish(struct symbol_image *image);

/* Opens a cached table and marks its use; -1 = none. */
int symbol_cache_open(const struct symbol_cache *cache, const char *identity, const char *kind);
void symbol_cache_remove(const struct symbol_cache *cache, const char *identity, const char *kind);
/* An unlinked file in the cache's directory (or, without one, in memory); -1 = refused. */
int symbol_cache_scratch(const struct symbol_cache *cache);
/* Keeps the table and gives it mapped. Takes buf. Falls back to memory when the disk refuses.
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_cache_publish(const struct symbol_cache *cache,
                                              const char *identity, const char *kind,
                                              struct sonde_buf *buf, struct symbol_image *image);
SONDE_MUST_USE sonde_err symbol_image_map(int fd, struct symbol_image *image);

/* For a table that another process writes: a new file to write to, with a temporary name (empty
 * when it is in memory); -1 = refused. Then commit gives it its own name, or abandon removes it.
 * The descriptor stays the caller's. */
#define SYMBOL_CACHE_NAME 64
int symbol_cache_begin(const struct symbol_cache *cache, char name[SYMBOL_CACHE_NAME]);
bool symbol_cache_commit(const struct symbol_cache *cache, int fd, const char *name,
                         const char *identity, const char *kind);
void symbol_cache_abandon(const struct symbol_cache *cache, const char *name);

/* Removes until the directory fits. Called by publish. */
void symbol_cache_evict(const struct symbol_cache *cache);

#endif
