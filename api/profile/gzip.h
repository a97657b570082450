/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip both ways, bounded. Internal to api/. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_GZIP_H
#define SONDE_API_PROFILE_GZIP_H

#include "api/bytes.h"
#include "api/error.h"

bool gzip_is(struct sonde_slice bytes);
/* Appends one gzip member. Level 1..9. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE (out's limit). */
SONDE_MUST_USE sonde_err gzip_pack(struct sonde_slice bytes, int level, struct sonde_buf *out);
/* Appends what all members hold, at most limit_bytes. SONDE_CORRUPT, SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err gzip_unpack(struct sonde_slice bytes, size_t limit_bytes,
                                     struct sonde_buf *out, struct sonde_diag *diag);

#endif
