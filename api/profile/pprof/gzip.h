/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip both ways, bounded. Internal to api/. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_PPROF_GZIP_H
#define SONDE_API_PROFILE_PPROF_GZIP_H

#include "api/bytes.h"
#include "api/error.h"

bool gzip_is(struct sonde_slice bytes);
/* Packs one gzip member piece by piece and appends it to out, which is the caller's and outlives
 * the packer. Level 1..9; from 3 on all are the same. NULL when out of memory. */
struct gzip_packer *gzip_packer_create(int level, struct sonde_buf *out);
void gzip_packer_add(struct gzip_packer *packer, struct sonde_slice bytes);
/* Ends the member. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE (out's limit). */
SONDE_MUST_USE sonde_err gzip_packer_end(struct gzip_packer *packer);
void gzip_packer_destroy(struct gzip_packer *packer); /* NULL is fine */
/* Appends what all members hold, at most limit_bytes. SONDE_CORRUPT, SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err gzip_unpack(struct sonde_slice bytes, size_t limit_bytes,
                                     struct sonde_buf *out, struct sonde_diag *diag);

#endif
