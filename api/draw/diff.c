/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/diff.h"

#include "api/draw/compare/changes.h"
#include "api/draw/compare/evidence.h"
#include "api/draw/render.h"
#include "api/draw/title.h"
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
    options.max_rows = wanted->max_rows;
    options.max_columns = wanted->max_columns;
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

/* ---- What the samples say ---- */

static void find_sides(const struct sonde_draw_diff *diff, struct sonde_blocks_side sides[2]) {
    sides[0] = sonde_time_parts_side(diff->base_parts, &diff->base,
                                     diff->base_scale > 0 ? diff->base_scale : 1);
    sides[1] = sonde_time_parts_side(diff->now_parts, &diff->now, 1);
}

/* How much time a process got in one capture also depends on what else ran, which its samples do
 * not show; its shares do not. */
enum verdict_measure sonde_draw_diff_measure(const struct sonde_draw_diff *diff, const char *type) {
    size_t index = type ? sonde_profile_find_type(diff->now, type) : SONDE_PROFILE_NO_TYPE;
    if (index == SONDE_PROFILE_NO_TYPE)
        index = sonde_profile_info(diff->now)->default_type;
    struct sonde_value_type of_now = sonde_profile_type(diff->now, index);
    return diff->normalise || !draw_is_memory(&of_now) ? VERDICT_SHARE : VERDICT_AMOUNT;
}

/* The sums of both sides' cells. */
static void sum_blocks(const struct sonde_blocks *blocks, struct verdict_cell sums[2]) {
    for (size_t i = 0; i < blocks->value_count; i++) {
        const struct sonde_block_value *value = &blocks->values[i];
        struct verdict_cell *sum = &sums[value->block >= blocks->counts[0]];
        verdict_cell_add(sum, &value->cell);
    }
}

static void put_doubts(struct sonde_buf *out, const struct sonde_blocks *blocks) {
    struct verdict_cell sums[2] = {{.value = 0}, {.value = 0}};
    sum_blocks(blocks, sums);
    const struct verdict_side sides[] = {{1, &sums[0], NULL, blocks->is_counted},
                                         {1, &sums[1], NULL, blocks->is_counted}};
    struct sonde_value_type type = sonde_profile_type(blocks->both, 0);
    const struct draw_doubts doubts = {.has_verdicts = sonde_blocks_have_verdicts(blocks),
                                       .is_correlated = blocks->is_correlated,
                                       .is_memory = draw_is_memory(&type),
                                       .samples = {sums[0].samples, sums[1].samples},
                                       .least_share_change =
                                           verdict_least_change(sides, 0.5, DRAW_CONFIDENCE)};
    draw_put_doubts(out, &doubts);
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
    struct sonde_blocks_side sides[2];
    struct sonde_draw_comparison comparison = comparison_of(diff, wanted->type);
    struct sonde_buf note = {0};
    struct sonde_blocks blocks;
    find_sides(diff, sides);
    sonde_err err = sonde_profile_compare_blocks(sides, wanted->type, &blocks, diag);
    if (err)
        return err;
    put_doubts(&note, &blocks);
    comparison.blocks = &blocks;
    comparison.note = note.len ? note.data : NULL;
    struct sonde_draw_options options = {.title = wanted->title,
                                         .palette = SONDE_PALETTE_DIFF,
                                         .comparison = &comparison,
                                         .base_index = 1,
                                         .split_threads = wanted->split_threads};
    err = sonde_draw(blocks.both, format, &options, out, diag);
    sonde_buf_finish(&note);
    sonde_blocks_finish(&blocks);
    return err;
}

/* Formats that say how sure the changes of functions are. */
static bool has_functions(enum sonde_format format) {
    return format == SONDE_FORMAT_TEXT_TOP || format == SONDE_FORMAT_MARKDOWN ||
           format == SONDE_FORMAT_CHANGES || format == SONDE_FORMAT_SVG_FLAMEGRAPH ||
           format == SONDE_FORMAT_SVG_CALLGRAPH;
}

bool sonde_draw_judges(enum sonde_format format) {
    return has_both(format) || has_functions(format);
}

static sonde_err compare_functions(const struct sonde_draw_diff *diff, enum sonde_format format,
                                   const char *type, struct sonde_draw_comparison *comparison,
                                   struct sonde_comparison **functions, struct sonde_buf *note,
                                   struct sonde_diag *diag) {
    struct sonde_blocks_side sides[2];
    const struct sonde_comparison_options options = {
        .type = type, .measure = sonde_draw_diff_measure(diff, type)};
    *functions = NULL;
    if (!has_functions(format))
        return SONDE_OK;
    find_sides(diff, sides);
    sonde_err err = sonde_comparison_create(sides, &options, functions, diag);
    if (err)
        return err;
    const struct draw_doubts doubts = {
        .has_verdicts = (*functions)->has_verdicts,
        .is_correlated = (*functions)->is_correlated,
        .is_memory = draw_is_memory(&(*functions)->type),
        .samples = {(*functions)->samples[0], (*functions)->samples[1]},
        .least_share_change = (*functions)->least_share_change};
    draw_put_doubts(note, &doubts);
    comparison->functions = *functions;
    comparison->note = note->len ? note->data : NULL;
    return SONDE_OK;
}

static sonde_err draw_changed(const struct sonde_draw_diff *diff,
                              const struct sonde_profile *difference, enum sonde_format format,
                              const struct sonde_draw_options *options, struct sonde_buf *out,
                              struct sonde_diag *diag) {
    struct sonde_draw_comparison comparison = comparison_of(diff, options->type);
    struct sonde_draw_options chosen = choose(difference, format, options);
    struct sonde_comparison *functions;
    struct sonde_buf note = {0};
    size_t index =
        format == SONDE_FORMAT_MARKDOWN ? draw_time_type(difference, &chosen) : chosen.type_index;
    const char *type = sonde_profile_type(difference, index).type;
    sonde_err err = compare_functions(diff, format, type, &comparison, &functions, &note, diag);
    chosen.comparison = &comparison;
    if (!err)
        err = sonde_draw(difference, format, &chosen, out, diag);
    sonde_comparison_destroy(functions);
    sonde_buf_finish(&note);
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
    case SONDE_FORMAT_CHANGES:
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
    if (options->function)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "function: a difference has no callers; draw one of its profiles");
    if (options->hide_idle)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "hide_idle: idle threads cannot be hidden in a difference");
    if (has_both(format) && !diff->growth_only)
        return draw_both(diff, format, options, out, diag);
    bool is_offered =
        info && (format == SONDE_FORMAT_CHANGES || info->offered & sonde_draw_subject(diff->now));
    if (!is_offered)
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "the difference cannot be rendered as %s; use proto, flamegraph, "
            "callgraph, collapsed, speedscope, top, md, changes, grafana or flamebearer",
            info ? info->output : "this format");
    sonde_err err = sonde_profile_diff(diff->base, diff->now, &how, &difference, diag);
    if (err)
        return err;
    err = draw_changed(diff, difference, format, options, out, diag);
    sonde_profile_destroy(difference);
    return err;
}
