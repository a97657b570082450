/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile in the form somebody asked for. One table row per format: name (`output=`), file
 * extension, media type, function. The service renders everything through this door, and `sonde
 * draw` does so offline.
 *
 * Every renderer answers an empty profile with a valid document that says "no samples", never with
 * 0 bytes. Thread safety: any thread; the profile must not change meanwhile. */
#ifndef SONDE_API_DRAW_DRAW_H
#define SONDE_API_DRAW_DRAW_H

#include "api/profile/profile.h"

/* The numbers are those of sonde.v1.Format. */
enum sonde_format {
    SONDE_FORMAT_UNSPECIFIED = 0,
    SONDE_FORMAT_PPROF = 1, /* gzip profile.proto */
    SONDE_FORMAT_SVG_FLAMEGRAPH = 2,
    SONDE_FORMAT_SVG_CALLGRAPH = 3,
    SONDE_FORMAT_COLLAPSED = 4,
    SONDE_FORMAT_SPEEDSCOPE = 5,
    SONDE_FORMAT_TEXT_TOP = 6,
    SONDE_FORMAT_JEMALLOC = 7,
    SONDE_FORMAT_LEGACY_CPU = 8,
    SONDE_FORMAT_LEGACY_HEAP = 9,
    SONDE_FORMAT_HEAPSNAPSHOT = 10,
    SONDE_FORMAT_HEAPPROFILE = 11,
};

/* What a profile tells about; a format is offered on some of them. */
enum sonde_subject { SONDE_OF_CPU = 1, SONDE_OF_ALLOCATIONS = 2, SONDE_OF_HEAP = 4 };

struct sonde_format_info {
    enum sonde_format format;
    const char *output;     /* the value of output= : "proto", "flamegraph", ... */
    const char *extension;  /* ".pb.gz", ".svg", ".legacy.heap", ... */
    const char *media_type; /* "image/svg+xml" */
    unsigned offered;       /* enum sonde_subject */
    bool is_drawn; /* false: JEMALLOC, bytes that are passed on as the allocator wrote them */
};

/* NULL when there is no such format. */
const struct sonde_format_info *sonde_format_info(enum sonde_format format);
/* "legacy" is two formats: from_output gives LEGACY_CPU, from_output_of the one of the subject, and
 * NULL when the format is not offered on it. */
const struct sonde_format_info *sonde_format_from_output(struct sonde_slice output);
const struct sonde_format_info *sonde_format_from_output_of(struct sonde_slice output,
                                                            enum sonde_subject subject);
/* HEAP when it has inuse_space, ALLOCATIONS when only alloc_space, otherwise CPU. */
enum sonde_subject sonde_draw_subject(const struct sonde_profile *profile);
/* By the longest extension the file name ends with; NULL when none fits. */
const struct sonde_format_info *sonde_format_from_name(const char *file_name);
/* All rows, for --help and for tests. */
const struct sonde_format_info *sonde_format_table(size_t *count);

enum sonde_palette { SONDE_PALETTE_CPU = 0, SONDE_PALETTE_MEMORY, SONDE_PALETTE_DIFF };

/* Takes a large document part by part, so that it is never in memory as a whole: bytes from the
 * front of the drawing, which then leave `out`. False ends the drawing; why is the sink's to say.
 */
struct sonde_draw_sink {
    bool (*write)(void *context, const char *bytes, size_t len);
    void *context;
};

/* Zeroed = sensible defaults. Strings are borrowed for the call; they may be hostile (target
 * names). */
struct sonde_draw_options {
    const char *title;    /* default "Flame Graph" */
    const char *subtitle; /* target, pid, seconds, frequency, samples, dropped, clock; default: from
                             the profile */
    size_t type_index;    /* which sample type gives the widths; default 0 */
    const char *type;     /* the same by name ("inuse_objects"); wins when not NULL */
    size_t base_index;    /* SONDE_PALETTE_DIFF: the sample type that holds the values of before */
    enum sonde_palette palette;
    bool merge_threads;   /* false: root, thread, frames; true: root, frames */
    int gzip_level;       /* PPROF only: 0 = default 1, -1 = raw protobuf */
    double minimum_share; /* SVG: narrower frames are folded into "(n more)"; default 0.0001 */
    bool all_one;         /* HEAPSNAPSHOT: every object has size 1 */
    /* HEAPSNAPSHOT: what is left in out at the end is the caller's to write behind what the sink
     * got. NULL, and other formats: all of it is in out. */
    const struct sonde_draw_sink *sink;
};

/* What suits the profile when nobody says otherwise: memory in the memory palette, by its default
 * sample type, whose name (borrowed) is the title; CPU time as with zeroed options. */
struct sonde_draw_options sonde_draw_defaults(const struct sonde_profile *profile);

/* SONDE_INVALID_ARGUMENT when the format is not drawn, when it is one for memory and the profile
 * measures none, or when there is no such sample type. */
SONDE_MUST_USE sonde_err sonde_draw(const struct sonde_profile *profile, enum sonde_format format,
                                    const struct sonde_draw_options *options, struct sonde_buf *out,
                                    struct sonde_diag *diag);

/* The one constant script and style that the SVG carries, as the CSP source expressions
 * 'sha256-...'. */
const char *sonde_draw_svg_script_hash(void);
const char *sonde_draw_svg_style_hash(void);

#endif
