/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompression of parts of ELF files: sections packed with zlib or zstd, whose header promises an
 * exact size, and the xz stream of .gnu_debugdata, whose size is not known. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_ELF_INFLATE_H
#define SONDE_SERVICE_ELF_INFLATE_H

#include "api/bytes.h"
#include "api/error.h"

/* Fill exactly to_len bytes, or fail with SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err inflate_zlib(const void *from, size_t from_len, void *to, size_t to_len);
SONDE_MUST_USE sonde_err inflate_zstd(const void *from, size_t from_len, void *to, size_t to_len);
/* Appends. SONDE_TOO_LARGE if the result is over limit or the decoder needs more than 64 MiB. */
SONDE_MUST_USE sonde_err inflate_xz(const void *from, size_t from_len, size_t limit,
                                    struct sonde_buf *to);

#endif
