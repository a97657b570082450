/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/diff.h"

#include "api/profile/diff.h"

/* The default options of the profile with those that a caller of a difference may set. */
static struct sonde_draw_options choose(const struct sonde_profile *profile,
                                        const struct sonde_draw_options *wanted) {
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    if (wanted->type)
        options.type = wanted->type;
    if (wanted->title)
        options.title = wanted->title;
    options.merge_threads = wanted->merge_threads;
    options.gzip_level = wanted->gzip_level;
    options.all_one = wanted->all_one;
    return options;
}

/* Formats that have the values of both profiles. */
static bool has_both(enum sonde_format format) {
    return format == SONDE_FORMAT_SVG_FLAMEGRAPH || format == SONDE_FORMAT_GRAFANA ||
           format == SONDE_FORMAT_FLAMEBEARER;
}

static sonde_err draw_both(const struct sonde_draw_diff *diff, enum sonde_format format,
                           const struct sonde_draw_options *wanted, struct sonde_buf *out,
                           struct sonde_diag *diag) {
    struct sonde_profile *both;
    sonde_err err = sonde_profile_compare(diff->base, diff->now, wanted->type, &both, diag);
    if (err)
        return err;
    struct sonde_draw_options options = {.title = wanted->title ? wanted->title : "Difference",
                                         .palette = SONDE_PALETTE_DIFF,
                                         .base_index = 1,
                                         .merge_threads = wanted->merge_threads};
    err = sonde_draw(both, format, &options, out, diag);
    sonde_profile_destroy(both);
    return err;
}

sonde_err sonde_draw_difference(const struct sonde_draw_diff *diff, enum sonde_format format,
                                const struct sonde_draw_options *options, struct sonde_buf *out,
                                struct sonde_diag *diag) {
    const struct sonde_diff_options how = {
        .normalise = diff->normalise, .growth_only = diff->growth_only, .type = options->type};
    const struct sonde_format_info *info = sonde_format_info(format);
    struct sonde_profile *difference;
    if (has_both(format) && !diff->growth_only)
        return draw_both(diff, format, options, out, diag);
    if (!info || !(info->offered & sonde_draw_subject(diff->now)))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the difference cannot be rendered as %s; use proto, flamegraph, "
                          "callgraph, collapsed, speedscope, top, md, grafana or flamebearer",
                          info ? info->output : "this format");
    sonde_err err = sonde_profile_diff(diff->base, diff->now, &how, &difference, diag);
    if (err)
        return err;
    struct sonde_draw_options chosen = choose(difference, options);
    err = sonde_draw(difference, format, &chosen, out, diag);
    sonde_profile_destroy(difference);
    return err;
}
