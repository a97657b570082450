/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of the table cache. Only table_cache.c includes this. Any thread; one trim at a
 * time. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_DISK_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_DISK_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdbool.h>

/* Opens dir, which is created if missing, and deletes temporary files of crashed processes. Returns
 * a descriptor, or -1 with errno. */
int unwind_disk_open(const char *dir);
/* Appends the table of identity, checked. False if there is none; *discarded if a damaged one was
 * deleted. */
bool unwind_disk_load(int dir_fd, const char *identity, struct sonde_buf *table, bool *discarded);
/* Stores a table. If the disk does not allow it, nothing happens. */
void unwind_disk_store(int dir_fd, const char *identity, const struct sonde_buf *table);
/* Deletes the least recently used tables until all take at most limit bytes. */
void unwind_disk_trim(int dir_fd, uint64_t limit);

#endif
