/* SPDX-License-Identifier: Apache-2.0
 *
 * Renders a profile in any format. The service and `sonde draw` use the same functions.
 *
 * An empty profile results in a valid document that says "no samples" or has no nodes, never in 0
 * bytes. Thread safety: any thread; the profile must not change meanwhile. */
#ifndef SONDE_API_DRAW_DRAW_H
#define SONDE_API_DRAW_DRAW_H

#include "api/profile/profile.h"

/* The numbers are those of sonde.v1.Format. */
enum sonde_format {
    SONDE_FORMAT_UNSPECIFIED = 0,
    SONDE_FORMAT_PPROF = 1, /* gzipped profile.proto */
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
    SONDE_FORMAT_FIREFOX = 12,
    SONDE_FORMAT_MARKDOWN = 13,
    SONDE_FORMAT_GRAFANA = 14,
    SONDE_FORMAT_DEEPFLOW_TREE = 15,
    SONDE_FORMAT_DEEPFLOW_COLUMNAR = 16,
    SONDE_FORMAT_FLAMEBEARER = 17,
    SONDE_FORMAT_CHANGES = 18, /* of differences only: JSON of every function's change */
};

/* What a profile measures. Each format is offered for some of these. */
enum sonde_subject {
    SONDE_OF_CPU = 1,
    SONDE_OF_ALLOCATIONS = 2,
    SONDE_OF_HEAP = 4,
    SONDE_OF_DIFFERENCE = 16, /* of formats that need two profiles of any kind */
};

struct sonde_format_info {
    enum sonde_format format;
    const char *output;     /* the value of output= : "proto", "flamegraph", ... */
    const char *extension;  /* ".pb.gz", ".svg", ".legacy.heap", ... */
    const char *media_type; /* "image/svg+xml" */
    unsigned offered;       /* enum sonde_subject */
    bool is_drawn;          /* false for JEMALLOC, which is passed on as the allocator wrote it */
};

/* NULL if there is no such format. */
const struct sonde_format_info *sonde_format_info(enum sonde_format format);
/* The format for a value of `output=`; NULL if there is none, or if it is not offered for the
 * subject. "legacy" is LEGACY_HEAP for heaps and LEGACY_CPU otherwise. */
const struct sonde_format_info *sonde_format_from_output(struct sonde_slice output);
const struct sonde_format_info *sonde_format_from_output_of(struct sonde_slice output,
                                                            enum sonde_subject subject);
/* HEAP if the profile has inuse_space, ALLOCATIONS if it only has alloc_space, otherwise CPU. */
enum sonde_subject sonde_draw_subject(const struct sonde_profile *profile);
/* The format of the longest extension that the file name ends with; NULL if there is none. */
const struct sonde_format_info *sonde_format_from_name(const char *file_name);
/* All rows, for --help and for tests. */
const struct sonde_format_info *sonde_format_table(size_t *count);

enum sonde_palette { SONDE_PALETTE_CPU = 0, SONDE_PALETTE_MEMORY, SONDE_PALETTE_DIFF };

/* Receives a large document piece by piece, so that it is not in memory as a whole. The bytes come
 * from the front of `out` and are removed from it. Returning false stops the drawing; the sink
 * keeps the reason. */
struct sonde_draw_sink {
    bool (*write)(void *context, const char *bytes, size_t len);
    void *context;
};

/* One side of a difference. */
struct sonde_draw_side {
    const char *name;                         /* "capture 6", "before.pb.gz" */
    int64_t time_unix_ns, duration_ns, total; /* 0 = unknown; total is of the drawn sample type */
};

struct sonde_blocks;     /* api/profile/diff/blocks.h */
struct sonde_comparison; /* api/draw/compare/comparison.h */

/* What a difference is of. The values of the base may be scaled to the new ones' time. */
struct sonde_draw_comparison {
    struct sonde_draw_side base, now;
    bool is_normalised; /* the new values were scaled to the base's total */
    bool growth_only;
    const char *note; /* what can and cannot be told from the samples; NULL = nothing to say */
    /* SONDE_PALETTE_DIFF: what each side's samples say; NULL = noise is not told from changes. */
    const struct sonde_blocks *blocks;
    const struct sonde_comparison *functions; /* text, CHANGES, pictures of growth; others: NULL */
};

/* Zeroed options are valid. Strings are borrowed for the call and may be hostile (target names). */
struct sonde_draw_options {
    /* Default: program, what was measured, duration, rate and time. DEEPFLOW_*: the service,
     * default the program. */
    const char *title;
    const char *subtitle; /* default: from the profile: total and comments */
    size_t type_index;    /* the sample type to draw */
    const char *type;     /* the same by name ("inuse_objects"); overrides type_index if not NULL */
    size_t base_index;    /* SONDE_PALETTE_DIFF: the sample type with the earlier values */
    enum sonde_palette palette;
    const struct sonde_draw_comparison *comparison; /* NULL: the values are not a difference */
    /* A thread level between the root and the frames; SPEEDSCOPE: one profile per thread. PPROF,
     * FIREFOX, MARKDOWN and DEEPFLOW_* always have the threads, TEXT_TOP and callgraphs never. */
    bool split_threads;
    int gzip_level;       /* PPROF: 0 = 1, -1 = not compressed */
    double minimum_share; /* SVG: smaller frames are merged into "(n more)"; 0 = 0.0001 */
    bool all_one;         /* HEAPSNAPSHOT: every object has the size 1 */
    /* DEEPFLOW_*: keep at most that many kernel frames of a stack, those next to the program's;
     * negative = all. Only read if limit_kernel_frames is set. */
    bool limit_kernel_frames;
    int32_t max_kernel_frames;
    /* TEXT_TOP: the number of rows and of columns, 0 = no limit; sorted by the total of functions
     * instead of their own values. */
    size_t max_rows, max_columns;
    bool by_total;
    bool has_processes; /* TEXT_TOP: the outermost frames are processes, which get a column */
    /* TEXT_TOP: the callers of this function and what it calls instead of all functions. Its full
     * or readable name; if there is no such function, * and the dots of a shortened name stand for
     * any characters. NULL = all functions. */
    const char *function;
    /* TEXT_TOP, MARKDOWN and pictures: the functions' names as they are; otherwise readable ones
     * (names/readable_name.h), and pictures have the full one as a tooltip. */
    bool full_names;
    /* Wall-clock and off-CPU time: without the threads that only wait (api/profile/select/idle.h).
     * Refused for other measures, and for differences. */
    bool hide_idle;
    /* HEAPSNAPSHOT: receives most of the document; the caller writes the rest from out. NULL, and
     * other formats: the whole document is in out. */
    const struct sonde_draw_sink *sink;
};

/* Default options for a profile: its default sample type, and the memory palette if it is of
 * memory. A profile of samples and their time is drawn by samples. */
struct sonde_draw_options sonde_draw_defaults(const struct sonde_profile *profile);

/* Appends the document to out. Errors: SONDE_INVALID_ARGUMENT if the format is not drawn or not
 * offered for what the profile measures, or if there is no such sample type; SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_draw(const struct sonde_profile *profile, enum sonde_format format,
                                    const struct sonde_draw_options *options, struct sonde_buf *out,
                                    struct sonde_diag *diag);

/* Appends a sentence about what the format does with negative values, for a caller that can show it
 * beside the document; nothing if there are none. Options as for sonde_draw. */
void sonde_draw_note(const struct sonde_profile *profile, enum sonde_format format,
                     const struct sonde_draw_options *options, struct sonde_buf *out);

/* The script and the style in every SVG, as CSP source expressions: 'sha256-...'. Static texts. */
const char *sonde_draw_svg_script_hash(void);
const char *sonde_draw_svg_style_hash(void);

#endif
