/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/format/pack.h"

#include <zstd.h>

/* Room for len bytes at the start of buf; NULL when memory ran out. */
static char *room(struct sonde_buf *buf, size_t len) {
    if (buf->data && buf->capacity > len)
        return buf->data;
    sonde_buf_finish(buf);
    return sonde_buf_extend(buf, len ? len : 1);
}

struct sonde_slice pack_compress(struct packer *packer, struct sonde_slice raw, int level) {
    struct sonde_slice none = {0};
    if (!packer->compressor && !(packer->compressor = ZSTD_createCCtx()))
        return none;
    size_t bound = ZSTD_compressBound(raw.len);
    char *data = room(&packer->packed, bound);
    if (!data)
        return none;
    ZSTD_CCtx_setParameter(packer->compressor, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(packer->compressor, ZSTD_c_checksumFlag, 1);
    size_t len = ZSTD_compress2(packer->compressor, data, bound, raw.data, raw.len);
    return ZSTD_isError(len) ? none : (struct sonde_slice){data, len};
}

struct sonde_slice pack_expand(struct packer *packer, struct sonde_slice packed) {
    struct sonde_slice none = {0};
    unsigned long long len = ZSTD_getFrameContentSize(packed.data, packed.len);
    /* Unknown sizes and errors are the largest numbers. */
    if (len > PACK_MAX_BYTES)
        return none;
    if (!packer->expander && !(packer->expander = ZSTD_createDCtx()))
        return none;
    char *data = room(&packer->raw, len);
    if (!data || ZSTD_decompressDCtx(packer->expander, data, len, packed.data, packed.len) != len)
        return none;
    return (struct sonde_slice){data, len};
}

void pack_finish(struct packer *packer) {
    ZSTD_freeCCtx(packer->compressor);
    ZSTD_freeDCtx(packer->expander);
    sonde_buf_finish(&packer->packed);
    sonde_buf_finish(&packer->raw);
    *packer = (struct packer){0};
}
