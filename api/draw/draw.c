/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats. A new format is a new row and a new file. */
#include "api/draw/draw.h"
#include "api/draw/render.h"
#include "api/profile/pprof.h"

#include <string.h>

static const struct sonde_format_info infos[] = {
    {SONDE_FORMAT_PPROF, "proto", ".pb.gz", "application/octet-stream"},
    {SONDE_FORMAT_SVG_FLAMEGRAPH, "flamegraph", ".svg", "image/svg+xml"},
    {SONDE_FORMAT_SVG_CALLGRAPH, "callgraph", ".callgraph.svg", "image/svg+xml"},
    {SONDE_FORMAT_COLLAPSED, "collapsed", ".collapsed", "text/plain"},
    {SONDE_FORMAT_SPEEDSCOPE, "speedscope", ".speedscope.json", "application/json"},
    {SONDE_FORMAT_TEXT_TOP, "top", ".txt", "text/plain"},
    {SONDE_FORMAT_LEGACY_CPU, "legacy", ".prof", "application/octet-stream"},
};

/* In the order of infos. */
static draw_renderer *const renderers[] = {
    draw_pprof,      draw_flamegraph, draw_callgraph,  draw_collapsed,
    draw_speedscope, draw_top,        draw_legacy_cpu,
};

#define ROWS (sizeof infos / sizeof *infos)
_Static_assert(ROWS == sizeof renderers / sizeof *renderers, "a renderer a row");

const struct sonde_format_info *sonde_format_info(enum sonde_format format) {
    for (size_t i = 0; i < ROWS; i++)
        if (infos[i].format == format)
            return &infos[i];
    return NULL;
}

const struct sonde_format_info *sonde_format_from_output(struct sonde_slice output) {
    for (size_t i = 0; i < ROWS; i++)
        if (sonde_slice_equals(output, infos[i].output))
            return &infos[i];
    return NULL;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

const struct sonde_format_info *sonde_format_from_name(const char *file_name) {
    const struct sonde_format_info *best = NULL;
    for (size_t i = 0; i < ROWS; i++)
        if (ends_with(file_name, infos[i].extension) &&
            (!best || strlen(infos[i].extension) > strlen(best->extension)))
            best = &infos[i];
    return best;
}

const struct sonde_format_info *sonde_format_table(size_t *count) {
    *count = ROWS;
    return infos;
}

sonde_err draw_pprof(const struct sonde_profile *profile, const struct sonde_draw_options *options,
                     struct sonde_buf *out, struct sonde_diag *diag) {
    int level = options->gzip_level == 0 ? 1 : options->gzip_level;
    return sonde_pprof_write(profile, level < 0 ? 0 : level, out, diag);
}

sonde_err sonde_draw(const struct sonde_profile *profile, enum sonde_format format,
                     const struct sonde_draw_options *options, struct sonde_buf *out,
                     struct sonde_diag *diag) {
    const struct sonde_draw_options defaults = {0};
    const struct sonde_format_info *info = sonde_format_info(format);
    if (!options)
        options = &defaults;
    if (!info)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "profiles cannot be drawn as format %d",
                          (int)format);
    if (options->type_index >= sonde_profile_type_count(profile))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the profile has %zu sample types",
                          sonde_profile_type_count(profile));
    sonde_err err = renderers[info - infos](profile, options, out, diag);
    if (!err && out->failed)
        err = sonde_fail(diag, out->limit ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY,
                         out->limit ? "the drawing is larger than %zu bytes"
                                    : "no memory for the drawing",
                         out->limit);
    return err;
}
