/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of a profile as REST names them: the table of api/draw/draw.h, which the command line
 * uses as well, with the values of `output=` and the extensions that a path may end with. Thread
 * safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_FORMATS_H
#define SONDE_GATEWAY_REQUEST_FORMATS_H

#include "api/bytes.h"
#include "api/draw/draw.h"

/* Kinds of paths; each offers some of the formats. */
enum format_family {
    FORMATS_CPU = SONDE_OF_CPU,
    FORMATS_ALLOCATIONS = SONDE_OF_ALLOCATIONS,
    FORMATS_HEAP = SONDE_OF_HEAP,
    FORMATS_DIFFERENCE = SONDE_OF_CPU | SONDE_OF_DIFFERENCE,
    /* Of a file whose kind is not known yet: what is drawn from pprof, not an allocator's dump. */
    FORMATS_DRAWN = SONDE_OF_CPU | SONDE_OF_ALLOCATIONS | SONDE_OF_HEAP | 8,
};

/* The format of a value of `output=`; NULL if the family does not offer it. Sets *splits_threads if
 * threads are split unless `threads=merged` is said. */
const struct sonde_format_info *format_find(struct sonde_slice output, enum format_family family,
                                            bool *splits_threads);
/* The format of an extension (".svg"); NULL if there is none. */
const struct sonde_format_info *format_of_extension(struct sonde_slice extension);
/* With a charset if it is text. */
const char *format_media_type(const struct sonde_format_info *info);
/* Whether it is sent with a Content-Disposition. */
bool format_is_file(const struct sonde_format_info *info);
/* Appends the values of `output=` that a family offers: "proto, flamegraph, ...". */
void format_append_list(struct sonde_buf *out, enum format_family family);
/* Appends the extensions that a family of the mask offers: ".pb.gz, .svg, ...". */
void format_append_extensions(struct sonde_buf *out, unsigned families);

#endif
