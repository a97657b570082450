/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/diff.h"

#include "api/profile/diff/diff.h"

/* The default options of the profile with those that a caller of a difference may set. Collapsed
 * stacks count samples as they do for a single capture; the others have time. */
static struct sonde_draw_options choose(const struct sonde_profile *profile,
                                        enum sonde_format format,
                                        const struct sonde_draw_options *wanted) {
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    if (wanted->type || format != SONDE_FORMAT_COLLAPSED)
        options.type_index = sonde_profile_info(profile)->default_type; /* that of the difference */
    options.title = wanted->title;
    options.split_threads = wanted->split_threads;
    options.gzip_level = wanted->gzip_level;
    options.all_one = wanted->all_one;
    return options;
}

/* ---- The sides ---- */

static struct sonde_draw_side side_of(const struct sonde_profile *profile, const char *name,
                                      const char *default_name, size_t type_index) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    bool is_state = sonde_draw_subject(profile) == SONDE_OF_HEAP; /* of one moment */
    return (struct sonde_draw_side){.name = name ? name : default_name,
                                    .time_unix_ns = info->time_unix_ns,
                                    .duration_ns = is_state ? 0 : info->duration_ns,
                                    .total = sonde_profile_total(profile, type_index)};
}

static struct sonde_draw_comparison comparison_of(const struct sonde_draw_diff *diff,
                                                  const char *type) {
    size_t index = type ? sonde_profile_find_type(diff->now, type) : SONDE_PROFILE_NO_TYPE;
    if (index == SONDE_PROFILE_NO_TYPE)
        index = sonde_profile_info(diff->now)->default_type;
    return (struct sonde_draw_comparison){.base =
                                              side_of(diff->base, diff->base_name, "before", index),
                                          .now = side_of(diff->now, diff->now_name, "after", index),
                                          .is_normalised = diff->normalise,
                                          .growth_only = diff->growth_only};
}

/* ---- Drawing ---- */

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
    const struct sonde_draw_comparison comparison = comparison_of(diff, wanted->type);
    struct sonde_draw_options options = {.title = wanted->title,
                                         .palette = SONDE_PALETTE_DIFF,
                                         .comparison = &comparison,
                                         .base_index = 1,
                                         .split_threads = wanted->split_threads};
    err = sonde_draw(both, format, &options, out, diag);
    sonde_profile_destroy(both);
    return err;
}

/* These formats show addresses and lines; the others show only functions. */
static bool has_addresses(enum sonde_format format) {
    return format == SONDE_FORMAT_PPROF || format == SONDE_FORMAT_LEGACY_CPU ||
           format == SONDE_FORMAT_LEGACY_HEAP;
}

/* Some formats never have a level of threads, and some always have one. */
static bool merges_threads(enum sonde_format format, const struct sonde_draw_options *options) {
    switch (format) {
    case SONDE_FORMAT_TEXT_TOP:
    case SONDE_FORMAT_MARKDOWN:
    case SONDE_FORMAT_SVG_CALLGRAPH:
        return true;
    case SONDE_FORMAT_FIREFOX:
    case SONDE_FORMAT_DEEPFLOW_TREE:
    case SONDE_FORMAT_DEEPFLOW_COLUMNAR:
        return false;
    default:
        return !options->split_threads;
    }
}

sonde_err sonde_draw_difference(const struct sonde_draw_diff *diff, enum sonde_format format,
                                const struct sonde_draw_options *options, struct sonde_buf *out,
                                struct sonde_diag *diag) {
    const struct sonde_diff_options how = {.normalise = diff->normalise,
                                           .growth_only = diff->growth_only,
                                           .by_function =
                                               diff->growth_only && !has_addresses(format),
                                           .keep_addresses = has_addresses(format),
                                           .merge_threads = merges_threads(format, options),
                                           .type = options->type};
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
    const struct sonde_draw_comparison comparison = comparison_of(diff, options->type);
    struct sonde_draw_options chosen = choose(difference, format, options);
    chosen.comparison = &comparison;
    err = sonde_draw(difference, format, &chosen, out, diag);
    sonde_profile_destroy(difference);
    return err;
}
