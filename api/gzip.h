/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip files, written piece by piece and read within a bound. Used for pprof files and for HTTP
 * answers. Thread safety: one thread at a time per writer; the other functions, any thread. */
#ifndef SONDE_API_GZIP_H
#define SONDE_API_GZIP_H

#include "api/bytes.h"
#include "api/error.h"

/* One gzip member that is being written. */
struct sonde_gzip_writer;

/* Returns a writer that appends to out, which stays the caller's and must outlive the writer. The
 * caller may empty out between calls. level is 1 (fastest) to 9 (smallest); 3 and above are equal.
 * A writer takes about 430 KiB. NULL when out of memory. */
struct sonde_gzip_writer *sonde_gzip_writer_create(int level, struct sonde_buf *out);
/* Compresses bytes. Output lags behind: a call may append nothing. */
void sonde_gzip_writer_add(struct sonde_gzip_writer *writer, struct sonde_slice bytes);
/* Appends the rest and the checksum. Errors, also those of earlier calls: SONDE_OUT_OF_MEMORY;
 * SONDE_TOO_LARGE when out reached its limit; SONDE_INTERNAL when compression failed. */
SONDE_MUST_USE sonde_err sonde_gzip_writer_end(struct sonde_gzip_writer *writer);
/* Accepts NULL, and a writer that has not ended. */
void sonde_gzip_writer_destroy(struct sonde_gzip_writer *writer);

/* Whether bytes begin like a gzip file. */
bool sonde_gzip_is(struct sonde_slice bytes);
/* Appends the uncompressed contents of all members to out, at most limit_bytes. Errors:
 * SONDE_CORRUPT, SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY; out then holds what was read before. */
SONDE_MUST_USE sonde_err sonde_gzip_read(struct sonde_slice bytes, size_t limit_bytes,
                                         struct sonde_buf *out, struct sonde_diag *diag);

#endif
