/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof's protobuf encoding (github.com/google/pprof, proto/profile.proto), written and read.
 *
 * The writer streams message by message into the buf, so that its extra memory is one message. The
 * reader takes hostile bytes: gzip or raw, bounded by `limit_bytes` after inflating, ids checked,
 * and every failure is SONDE_CORRUPT or SONDE_TOO_LARGE with the byte offset in the diag. Thread
 * safety: any thread. */
#ifndef SONDE_API_PROFILE_PPROF_PPROF_H
#define SONDE_API_PROFILE_PPROF_PPROF_H

#include "api/profile/profile.h"

/* Raw protobuf when gzip_level is 0, otherwise one gzip member of that level (1..9). */
SONDE_MUST_USE sonde_err sonde_pprof_write(const struct sonde_profile *profile, int gzip_level,
                                           struct sonde_buf *out, struct sonde_diag *diag);
/* *profile is the caller's to destroy; NULL on failure. */
SONDE_MUST_USE sonde_err sonde_pprof_read(struct sonde_slice bytes, size_t limit_bytes,
                                          struct sonde_profile **profile, struct sonde_diag *diag);

#endif
