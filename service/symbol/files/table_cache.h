/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables on disk, as <identity>.<kind> in one private directory. A table is written to a temporary
 * file, synced and renamed, so that a reader sees all of it or nothing. Tables are mapped
 * read-only. Opening a table marks it as used; when the directory exceeds its limit, the least
 * recently used files are removed (a mapped table stays readable after its name is gone). Thread
 * safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_TABLE_CACHE_H
#define SONDE_SERVICE_SYMBOL_FILES_TABLE_CACHE_H

#include "api/bytes.h"
#include "api/error.h"

struct symbol_cache {
    int directory; /* -1 = no disk cache */
    uint64_t limit;
};

/* Creates the directory (0700) if needed. path NULL = no disk cache. SONDE_IO,
 * SONDE_PERMISSION_DENIED if other users can write there. */
SONDE_MUST_USE sonde_err symbol_cache_init(struct symbol_cache *cache, const char *path,
                                           uint64_t limit, struct sonde_diag *diag);
void symbol_cache_finish(struct symbol_cache *cache);

/* The bytes of a table: mapped from a file, or owned memory if there is no cache. */
struct symbol_image {
    void *bytes;
    size_t len;
    bool is_mapped;
};
void symbol_image_finish(struct symbol_image *image);

/* Opens a cached table and marks it as used; -1 = none. */
int symbol_cache_open(const struct symbol_cache *cache, const char *identity, const char *kind);
void symbol_cache_remove(const struct symbol_cache *cache, const char *identity, const char *kind);
/* An unlinked file in the cache's directory, or in memory without one; -1 on failure. */
int symbol_cache_scratch(const struct symbol_cache *cache);
/* Stores the table and maps it. Takes buf. If the disk refuses, the image is buf's memory.
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_cache_publish(const struct symbol_cache *cache,
                                              const char *identity, const char *kind,
                                              struct sonde_buf *buf, struct symbol_image *image);
SONDE_MUST_USE sonde_err symbol_image_map(int fd, struct symbol_image *image);

/* For a table that another process writes. begin creates a file with a temporary name (empty if the
 * file is in memory) and returns it, or -1; commit renames it to its final name; abandon removes
 * it. The caller closes the descriptor. */
#define SYMBOL_CACHE_NAME 64
int symbol_cache_begin(const struct symbol_cache *cache, char name[SYMBOL_CACHE_NAME]);
bool symbol_cache_commit(const struct symbol_cache *cache, int fd, const char *name,
                         const char *identity, const char *kind);
void symbol_cache_abandon(const struct symbol_cache *cache, const char *name);

/* Removes files until the directory is within its limit. commit and publish call it. */
void symbol_cache_evict(const struct symbol_cache *cache);

#endif
