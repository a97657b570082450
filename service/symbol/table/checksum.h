/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash that tables are checked by, and small items are found by. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_CHECKSUM_H
#define SONDE_SERVICE_SYMBOL_TABLE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Hashes bytes onto `hash` (0 to start). May be called in parts when every part but the last is a
 * multiple of the piece. */
#define SYMBOL_CHECKSUM_PIECE ((size_t)64 << 10)
uint64_t symbol_checksum(uint64_t hash, const void *bytes, size_t len);

#endif
