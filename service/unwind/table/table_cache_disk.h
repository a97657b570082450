/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory behind the table cache. Only table_cache.c includes it. Any thread; one trim at a
 * time. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_DISK_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_CACHE_DISK_H

#include "api/bytes.h"
#include "api/error.h"

#include <stdbool.h>

/* Opens dir, made when missing, and removes what a crash left. Returns a descriptor, or -1 with
 * errno. */
int unwind_disk_open(const char *dir);
/* The checked table of identity appended to table. False when there is none; *discarded when there
 * was a bad one. */
bool unwind_disk_load(int dir_fd, const char *identity, struct sonde_buf *table, bool *discarded);
/* Keeps it if the disk lets us. */
void unwind_disk_store(int dir_fd, const char *identity, const struct sonde_buf *table);
/* Removes the least recently used until the tables take at most limit bytes. */
void unwind_disk_trim(int dir_fd, uint64_t limit);

#endif
