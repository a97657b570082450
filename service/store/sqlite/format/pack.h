/* SPDX-License-Identifier: Apache-2.0
 *
 * Compresses and expands the blobs of the file: zstd with a checksum, so that a damaged page is
 * found. Thread safety: one thread at a time per packer. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_PACK_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_PACK_H

#include "api/bytes.h"

#define PACK_MAX_BYTES (64u << 20) /* of an expanded blob */

struct packer {
    void *compressor, *expander; /* zstd's contexts */
    struct sonde_buf packed, raw;
};

/* Borrowed, valid until the next call; data NULL when memory ran out, or (expand) the bytes are
 * damaged. level is zstd's. */
struct sonde_slice pack_compress(struct packer *packer, struct sonde_slice raw, int level);
struct sonde_slice pack_expand(struct packer *packer, struct sonde_slice packed);
void pack_finish(struct packer *packer);

#endif
