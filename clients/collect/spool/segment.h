/* SPDX-License-Identifier: Apache-2.0
 *
 * A segment's file: 8 bytes "SondeSp2", then blocks of one entry each, numbers little-endian:
 *
 *     u32 length of the payload   u32 length when decompressed   u32 CRC-32 of what follows it
 *     u64 source   i64 when (Unix ns)   u32 windows   payload: the entry, compressed with zstd
 *
 * The payloads of a file are one zstd frame that is flushed after each entry: names, labels and ids
 * that earlier entries had take hardly any space. A block can only be read after those before it. A
 * file that was being written when the machine stopped may end inside a block. Thread safety: any
 * thread. */
#ifndef SONDE_CLIENTS_COLLECT_SPOOL_SEGMENT_H
#define SONDE_CLIENTS_COLLECT_SPOOL_SEGMENT_H

#include "clients/collect/spool/spool.h"

#define SEGMENT_MAGIC      "SondeSp2"
#define SEGMENT_MAGIC_LEN  8
#define SEGMENT_BLOCK_HEAD 32 /* bytes before a payload */

struct ZSTD_CCtx_s;

/* Before the first block of each file; *packer is created when it is NULL. False when out of
 * memory. */
bool segment_begin(struct ZSTD_CCtx_s **packer);
void segment_packer_destroy(struct ZSTD_CCtx_s *packer); /* NULL is fine */

/* Appends a block. False when out of memory; then the file can have no more blocks. */
bool segment_add_block(struct ZSTD_CCtx_s *packer, struct sonde_buf *out,
                       const struct spool_entry *entry, int64_t unix_ns);

/* Adds the whole blocks of a file to the segment, whose entries and their bytes are in the arena.
 * *is_whole: nothing follows them. False when out of memory. */
bool segment_parse(struct sonde_slice file, struct sonde_arena *arena,
                   struct spool_segment *segment, bool *is_whole);

#endif
