/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and reads pprof files (github.com/google/pprof, proto/profile.proto). Thread safety: any
 * thread; the profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_PPROF_PPROF_H
#define SONDE_API_PROFILE_PPROF_PPROF_H

#include "api/profile/profile.h"

/* Appends the file to out: protobuf if gzip_level is 0, otherwise gzip of that level (1 to 9).
 * Needs little memory besides out. Errors: SONDE_INVALID_ARGUMENT, SONDE_OUT_OF_MEMORY,
 * SONDE_TOO_LARGE (out's limit). */
SONDE_MUST_USE sonde_err sonde_pprof_write(const struct sonde_profile *profile, int gzip_level,
                                           struct sonde_buf *out, struct sonde_diag *diag);
/* Reads a file, gzipped or not. bytes are hostile; limit_bytes bounds the inflated size and the
 * profile. The caller destroys *profile, which is NULL on failure. Errors: SONDE_CORRUPT (diag has
 * the offset), SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_pprof_read(struct sonde_slice bytes, size_t limit_bytes,
                                          struct sonde_profile **profile, struct sonde_diag *diag);

#endif
