/* SPDX-License-Identifier: Apache-2.0
 *
 * A segment's file: 8 bytes "SondeSp1", then blocks of one entry each, numbers little-endian:
 *
 *     u32 length of the payload   u32 length when decompressed   u32 CRC-32 of what follows it
 *     u64 source   i64 when (Unix ns)   u32 windows   payload: the entry, compressed with zstd
 *
 * A file that was being written when the machine stopped may end inside a block. Thread safety: any
 * thread. */
#ifndef SONDE_CLIENTS_COLLECT_SPOOL_SEGMENT_H
#define SONDE_CLIENTS_COLLECT_SPOOL_SEGMENT_H

#include "clients/collect/spool/spool.h"

#define SEGMENT_MAGIC      "SondeSp1"
#define SEGMENT_MAGIC_LEN  8
#define SEGMENT_BLOCK_HEAD 32 /* bytes before a payload */

/* Appends a block. False when out of memory. */
bool segment_add_block(struct sonde_buf *out, const struct spool_entry *entry, int64_t unix_ns);

/* Adds the whole blocks of a file to the segment, whose entries and their bytes are in the arena.
 * *is_whole: nothing follows them. False when out of memory. */
bool segment_parse(struct sonde_slice file, struct sonde_arena *arena,
                   struct spool_segment *segment, bool *is_whole);

#endif
