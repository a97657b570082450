/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/spool/segment.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define CHECKED 12 /* offset of what the checksum covers */
#define LEVEL   3
#define WINDOW  23 /* log2 of the bytes in which repetitions are found */
#define FLUSH   64 /* more bytes than ZSTD_compressBound says: of the frame, and of a flush */

static void put(char *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(value >> (8 * i));
}

static uint64_t get(const char *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)(uint8_t)at[i] << (8 * i);
    return value;
}

bool segment_begin(ZSTD_CCtx **packer) {
    if (!*packer)
        *packer = ZSTD_createCCtx();
    return *packer && !ZSTD_isError(ZSTD_CCtx_reset(*packer, ZSTD_reset_session_and_parameters)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(*packer, ZSTD_c_compressionLevel, LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(*packer, ZSTD_c_windowLog, WINDOW));
}

void segment_packer_destroy(ZSTD_CCtx *packer) {
    ZSTD_freeCCtx(packer);
}

bool segment_add_block(ZSTD_CCtx *packer, struct sonde_buf *out, const struct spool_entry *entry,
                       int64_t unix_ns) {
    size_t before = out->len, bound = ZSTD_compressBound(entry->bytes.len) + FLUSH;
    char *block = sonde_buf_extend(out, SEGMENT_BLOCK_HEAD + bound);
    if (!block)
        return false;
    ZSTD_inBuffer from = {entry->bytes.data, entry->bytes.len, 0};
    ZSTD_outBuffer to = {block + SEGMENT_BLOCK_HEAD, bound, 0};
    if (ZSTD_compressStream2(packer, &to, &from, ZSTD_e_flush) != 0) { /* an error, or no room */
        out->len = before;
        return false;
    }
    put(block, to.pos, 4);
    put(block + 4, entry->bytes.len, 4);
    put(block + 12, entry->source, 8);
    put(block + 20, (uint64_t)unix_ns, 8);
    put(block + 28, entry->windows, 4);
    put(block + 8,
        crc32(0, (const Bytef *)block + CHECKED, (uInt)(SEGMENT_BLOCK_HEAD - CHECKED + to.pos)), 4);
    out->len = before + SEGMENT_BLOCK_HEAD + to.pos;
    return true;
}

static bool unpack(ZSTD_DCtx *unpacker, char *bytes, size_t size, const char *packed, size_t len) {
    ZSTD_inBuffer from = {packed, len, 0};
    ZSTD_outBuffer to = {bytes, size, 0};
    size_t before;
    do {
        before = from.pos + to.pos;
        if (ZSTD_isError(ZSTD_decompressStream(unpacker, &to, &from)))
            return false;
    } while (from.pos + to.pos > before);
    return from.pos == len && to.pos == size;
}

/* A block's payload into the arena. *is_good false: the bytes are not a block. */
static bool read_block(ZSTD_DCtx *unpacker, const char *block, size_t len,
                       struct sonde_arena *arena, struct spool_entry *entry, int64_t *unix_ns,
                       bool *is_good) {
    size_t packed = get(block, 4), size = get(block + 4, 4);
    *is_good = packed <= len - SEGMENT_BLOCK_HEAD && size <= SPOOL_MAX_ENTRY &&
               get(block + 8, 4) == crc32(0, (const Bytef *)block + CHECKED,
                                          (uInt)(SEGMENT_BLOCK_HEAD - CHECKED + packed));
    if (!*is_good)
        return true;
    char *bytes = sonde_arena_alloc(arena, size + 1);
    if (!bytes)
        return false;
    *is_good = unpack(unpacker, bytes, size, block + SEGMENT_BLOCK_HEAD, packed);
    *entry = (struct spool_entry){.source = get(block + 12, 8),
                                  .windows = (uint32_t)get(block + 28, 4),
                                  .bytes = {bytes, size}};
    *unix_ns = (int64_t)get(block + 20, 8);
    return true;
}

/* How many blocks there may be. */
static size_t count_blocks(struct sonde_slice file) {
    size_t count = 0, at = SEGMENT_MAGIC_LEN;
    while (at + SEGMENT_BLOCK_HEAD <= file.len) {
        at += SEGMENT_BLOCK_HEAD + get(file.data + at, 4);
        count++;
    }
    return count;
}

static bool read_blocks(ZSTD_DCtx *unpacker, struct sonde_slice file, struct sonde_arena *arena,
                        struct spool_segment *segment, bool *is_whole) {
    size_t at = SEGMENT_MAGIC_LEN;
    while (at + SEGMENT_BLOCK_HEAD <= file.len) {
        bool is_good;
        int64_t unix_ns = 0;
        if (!read_block(unpacker, file.data + at, file.len - at, arena,
                        &segment->entries[segment->count], &unix_ns, &is_good))
            return false;
        if (!is_good)
            return true;
        if (segment->count++ == 0)
            segment->unix_ns = unix_ns;
        at += SEGMENT_BLOCK_HEAD + get(file.data + at, 4);
    }
    *is_whole = at == file.len;
    return true;
}

bool segment_parse(struct sonde_slice file, struct sonde_arena *arena,
                   struct spool_segment *segment, bool *is_whole) {
    *is_whole = false;
    if (file.len < SEGMENT_MAGIC_LEN || memcmp(file.data, SEGMENT_MAGIC, SEGMENT_MAGIC_LEN) != 0)
        return true;
    ZSTD_DCtx *unpacker = ZSTD_createDCtx();
    segment->entries =
        sonde_arena_alloc(arena, (count_blocks(file) + 1) * sizeof *segment->entries);
    bool is_read = unpacker && segment->entries &&
                   !ZSTD_isError(ZSTD_DCtx_setParameter(unpacker, ZSTD_d_windowLogMax, WINDOW)) &&
                   read_blocks(unpacker, file, arena, segment, is_whole);
    ZSTD_freeDCtx(unpacker);
    return is_read;
}
