/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed parts of ELF files: sections by zlib or zstd, whose inflated size is told and must be
 * met, and the xz stream of .gnu_debugdata, whose size is only bounded. Thread safety: any thread.
 */
#ifndef SONDE_SERVICE_ELF_INFLATE_H
#define SONDE_SERVICE_ELF_INFLATE_H

#include "api/bytes.h"
#include "api/error.h"

/* Fills exactly to_len bytes or fails with SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err symbol_inflate_zlib(const void *from, size_t from_len, void *to,
                                             size_t to_len);
SONDE_MUST_USE sonde_err symbol_inflate_zstd(const void *from, size_t from_len, void *to,
                                             size_t to_len);
/* Appends; SONDE_TOO_LARGE when more than limit bytes come out or the decoder wants over 64 MiB. */
SONDE_MUST_USE sonde_err symbol_inflate_xz(const void *from, size_t from_len, size_t limit,
                                           struct sonde_buf *to);

#endif
