/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of `output=` and how each form is sent: one table. Which of them a path offers is the
 * path's own mask. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_FORMATS_H
#define SONDE_GATEWAY_REQUEST_FORMATS_H

#include "api/bytes.h"

enum format_family { FORMATS_CPU = 1, FORMATS_ALLOCATIONS = 2, FORMATS_HEAP = 4 };

struct format_info {
    const char *output;     /* "proto" */
    int format;             /* sonde.v1.Format */
    const char *media_type; /* with charset for texts */
    bool is_file;           /* saved rather than shown: gets a Content-Disposition */
    unsigned offered;       /* families */
};

/* NULL when the family has no such output. */
const struct format_info *format_find(struct sonde_slice output, enum format_family family);
/* The row of a format; never NULL for one that is in the table. */
const struct format_info *format_of(int format);
/* "proto, flamegraph, ..." of a family. */
void format_append_list(struct sonde_buf *out, enum format_family family);
const struct format_info *format_table(size_t *count);

#endif
