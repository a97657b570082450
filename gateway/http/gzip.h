/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip, piece by piece, for answers whose client asked for it. Thread safety: one thread at a time
 * per stream. */
#ifndef SONDE_GATEWAY_HTTP_GZIP_H
#define SONDE_GATEWAY_HTTP_GZIP_H

#include "api/bytes.h"

struct gzip_stream;

/* NULL when out of memory. */
struct gzip_stream *gzip_stream_create(void);
void gzip_stream_destroy(struct gzip_stream *stream);
/* Appends what the bytes became to out: often nothing yet. `last` finishes the stream. */
void gzip_stream_add(struct gzip_stream *stream, struct sonde_slice bytes, bool last,
                     struct sonde_buf *out);

#endif
