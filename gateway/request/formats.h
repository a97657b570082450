/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of `output=`, which kinds of paths offer each, and how each format is sent. Thread
 * safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_FORMATS_H
#define SONDE_GATEWAY_REQUEST_FORMATS_H

#include "api/bytes.h"

enum format_family { FORMATS_CPU = 1, FORMATS_ALLOCATIONS = 2, FORMATS_HEAP = 4 };

struct format_info {
    const char *output;     /* "proto" */
    int format;             /* sonde.v1.Format */
    const char *media_type; /* with a charset if it is text */
    bool is_file;           /* is sent with a Content-Disposition */
    unsigned offered;       /* format families */
};

/* The row of a value of `output=`; NULL if the family does not offer it. */
const struct format_info *format_find(struct sonde_slice output, enum format_family family);
/* The row of a sonde.v1.Format; NULL if it is not in the table. */
const struct format_info *format_of(int format);
/* Appends the values that a family offers: "proto, flamegraph, ...". */
void format_append_list(struct sonde_buf *out, enum format_family family);
const struct format_info *format_table(size_t *count);

#endif
