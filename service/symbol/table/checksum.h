/* SPDX-License-Identifier: Apache-2.0
 *
 * The checksum of tables, which also serves as a hash of small items. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_CHECKSUM_H
#define SONDE_SERVICE_SYMBOL_TABLE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues `hash` (0 at first) over more bytes. A sequence of calls gives the same result as one
 * call if the length of every part but the last is a multiple of SYMBOL_CHECKSUM_PIECE. */
#define SYMBOL_CHECKSUM_PIECE ((size_t)64 << 10)
uint64_t symbol_checksum(uint64_t hash, const void *bytes, size_t len);

#endif
