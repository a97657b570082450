/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary in Markdown for tickets and for language models: what was measured, the functions with
 * the largest values of their own, and the heaviest stacks, of all threads together because the
 * threads of a pool have the same stacks. Its size is bounded: at most ROWS functions, PATHS
 * stacks, FRAMES frames of a stack, THREADS threads, NAME characters of a name and COMMENT of a
 * comment.
 *
 * Names are code spans. A code span ends at a backtick and a table cell at a bar, so a backtick in
 * a name becomes an apostrophe, and a bar in a cell is escaped. */
#include "api/draw/accuracy.h"
#include "api/draw/compare/changes.h"
#include "api/draw/negatives.h"
#include "api/draw/render.h"
#include "api/draw/title.h"
#include "api/draw/tree.h"
#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define ROWS      25
#define PATHS     10
#define THREADS   10
#define FRAMES    24
#define OUTERMOST 6 /* of FRAMES, if frames are left out */
#define NAME      120
#define COMMENTS  16
#define COMMENT   500

struct markdown {
    struct draw_tree *tree;
    struct sonde_buf *out;
    const char *unit;
    const struct sonde_draw_comparison *comparison; /* NULL: not a difference */
    int64_t whole;                                  /* shares are of it */
    const struct draw_accuracy *accuracy;           /* of the frames */
};

/* ---- Text ---- */

/* Appends one character of text and returns its length in text. */
static size_t put_character(struct sonde_buf *out, const char *text, size_t len, bool in_cell) {
    uint32_t code = 0;
    size_t step = sonde_utf8_next(text, len, &code);
    if (step == 0 || draw_is_unfit(code))
        sonde_buf_puts(out, "\xef\xbf\xbd");
    else if (code == '`')
        sonde_buf_putc(out, '\'');
    else if (code == '|' && in_cell)
        sonde_buf_puts(out, "\\|");
    else
        sonde_buf_append(out, text, step);
    return step ? step : 1;
}

static void put_at_most(struct sonde_buf *out, const char *text, size_t limit, bool in_cell) {
    size_t len = strlen(text), chars = 0;
    sonde_buf_putc(out, '`');
    for (size_t i = 0; i < len && chars < limit; chars++)
        i += put_character(out, text + i, len - i, in_cell);
    if (draw_text_width(text) > limit)
        sonde_buf_puts(out, "…");
    sonde_buf_putc(out, '`');
}

static void put_code(struct sonde_buf *out, const char *text, bool in_cell) {
    put_at_most(out, text, NAME, in_cell);
}

/* Of a difference: the change, as a share of the base. */
static void put_share(const struct markdown *state, int64_t value) {
    const struct sonde_draw_comparison *comparison = state->comparison;
    if (!comparison) {
        draw_value(state->out, value, state->unit);
        sonde_buf_printf(state->out, " (%.1f %%)", draw_percent(value, state->whole));
        return;
    }
    draw_put_change(state->out, value, state->unit);
    sonde_buf_printf(state->out, " (%+.1f %%)", draw_percent(value, comparison->base.total));
}

/* With half the interval of its share, if that is large. */
static void put_sampled(const struct markdown *state, int64_t value,
                        const struct verdict_cell *cells, uint32_t frame) {
    const struct draw_accuracy *accuracy = state->accuracy;
    double half = accuracy->is_known ? draw_accuracy_doubt(accuracy, &cells[frame]) : 0;
    if (half <= 0) {
        put_share(state, value);
        return;
    }
    draw_value(state->out, value, state->unit);
    sonde_buf_printf(state->out, " (%.1f %% ± %.1f)", draw_percent(value, state->whole),
                     100 * half / (double)state->whole);
}

/* The change of a function with its interval. */
static void put_value(const struct markdown *state, int64_t value, const struct draw_frame *frame,
                      bool is_total) {
    const struct sonde_comparison *functions =
        state->comparison ? state->comparison->functions : NULL;
    const struct sonde_comparison_function *function =
        functions ? sonde_comparison_find(functions, frame->name, frame->module) : NULL;
    if (!function) {
        put_share(state, value);
        return;
    }
    const struct verdict_change *change =
        is_total ? &function->total[functions->measure] : &function->self[functions->measure];
    draw_put_change(state->out, value, state->unit);
    sonde_buf_puts(state->out, " (");
    draw_put_percent_change(state->out, change, sonde_comparison_whole(functions));
    sonde_buf_printf(state->out, "%s)", draw_verdict_mark(functions, change));
}

/* ---- Header ---- */

static void put_side(const struct markdown *state, const char *word,
                     const struct sonde_draw_side *side) {
    struct sonde_buf text = {0};
    draw_put_side(&text, side, state->unit, draw_value);
    sonde_buf_puts(state->out, word);
    put_code(state->out, sonde_buf_slice(&text).data, false);
    sonde_buf_putc(state->out, '\n');
    sonde_buf_finish(&text);
}

static void put_sides(const struct markdown *state) {
    put_side(state, "- base: ", &state->comparison->base);
    put_side(state, "- new: ", &state->comparison->now);
    sonde_buf_puts(state->out, "- change: ");
    draw_put_total_change(state->out, state->comparison, state->unit, draw_value);
    sonde_buf_puts(state->out, "\n- percentages below are of the base's total\n");
    if (state->comparison->is_normalised)
        sonde_buf_puts(state->out, "- the new values are scaled to the base's total\n");
    if (state->comparison->functions)
        sonde_buf_puts(state->out,
                       state->comparison->functions->measure == VERDICT_SHARE
                           ? "- those of functions are changes of the share of the total with "
                             "95 % intervals; ~ is within noise, ? has too few samples\n"
                           : "- those of functions have 95 % intervals; ~ is within noise, ? has "
                             "too few samples\n");
    if (state->comparison->note)
        sonde_buf_printf(state->out, "- %s\n", state->comparison->note);
}

static void put_total(const struct markdown *state, const struct sonde_profile *profile,
                      const char *type) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    struct sonde_buf *out = state->out;
    sonde_buf_puts(out, "- total: ");
    draw_value(out, state->tree->total, state->unit);
    sonde_buf_puts(out, " of ");
    put_code(out, type, false);
    if (info->duration_ns > 0) {
        sonde_buf_puts(out, " in ");
        draw_put_duration(out, info->duration_ns);
    }
    sonde_buf_putc(out, '\n');
}

/* A title of the user's may not say what it is of. */
static void put_title(const struct markdown *state, const struct sonde_profile *profile,
                      const struct sonde_draw_options *options) {
    struct sonde_buf facts = {0};
    draw_put_title(&facts, profile, options, "unknown program");
    sonde_buf_puts(state->out, "# Profile: ");
    put_code(state->out, options->title ? options->title : sonde_buf_slice(&facts).data, false);
    sonde_buf_puts(state->out, "\n\n");
    if (options->title) {
        sonde_buf_puts(state->out, "- profile: ");
        put_code(state->out, sonde_buf_slice(&facts).data, false);
        sonde_buf_putc(state->out, '\n');
    }
    sonde_buf_finish(&facts);
}

static void put_header(const struct markdown *state, const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, const char *type) {
    struct sonde_buf *out = state->out, estimate = {0};
    put_title(state, profile, options);
    if (state->comparison)
        put_sides(state);
    else
        put_total(state, profile, type);
    if (!state->comparison)
        draw_put_accuracy(profile, options->type_index, &estimate);
    if (estimate.len)
        sonde_buf_printf(out, "- %s\n", estimate.data);
    estimate.len = 0;
    struct sonde_draw_options of_time = *options;
    of_time.type_index = draw_time_type(profile, options);
    draw_put_negatives(&estimate, profile, SONDE_FORMAT_MARKDOWN, &of_time);
    if (estimate.len)
        sonde_buf_printf(out, "- %s\n", estimate.data);
    sonde_buf_finish(&estimate);
    size_t comments = sonde_profile_comment_count(profile);
    for (size_t i = 0; i < comments && i < COMMENTS; i++) {
        sonde_buf_puts(out, "- ");
        put_at_most(out, sonde_profile_comment(profile, i), COMMENT,
                    false); /* it may have advice */
        sonde_buf_putc(out, '\n');
    }
}

/* ---- Functions ---- */

/* Larger magnitudes first. */
static int compare_values(int64_t a, int64_t b) {
    int64_t x = a < 0 ? -(a + 1) : a, y = b < 0 ? -(b + 1) : b;
    return x == y ? 0 : x > y ? -1 : 1;
}

static int compare_frames(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    const struct draw_frame *x = draw_tree_frame(tree, *(const uint32_t *)a);
    const struct draw_frame *y = draw_tree_frame(tree, *(const uint32_t *)b);
    int order = compare_values(x->flat, y->flat);
    if (order == 0)
        order = compare_values(x->cum, y->cum);
    if (order == 0)
        order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

static void put_function(const struct markdown *state, uint32_t number) {
    const struct draw_frame *frame = draw_tree_frame(state->tree, number);
    sonde_buf_puts(state->out, "| ");
    if (state->comparison)
        put_value(state, frame->flat, frame, false);
    else
        put_sampled(state, frame->flat, state->accuracy->flat, number);
    sonde_buf_puts(state->out, " | ");
    if (state->comparison)
        put_value(state, frame->cum, frame, true);
    else
        put_sampled(state, frame->cum, state->accuracy->cum, number);
    sonde_buf_puts(state->out, " | ");
    put_code(state->out, frame->name, true);
    sonde_buf_puts(state->out, " | ");
    if (frame->module[0])
        put_code(state->out, frame->module, true);
    sonde_buf_puts(state->out, frame->module[0] ? " |\n" : "|\n");
}

static void put_functions(const struct markdown *state, uint32_t *order) {
    uint32_t root = draw_tree_node(state->tree, DRAW_TREE_ROOT)->frame, count = 0;
    for (uint32_t i = 0; i < state->tree->frames.count; i++) {
        const struct draw_frame *frame = draw_tree_frame(state->tree, i);
        if (i != root && !frame->is_thread && (frame->flat || frame->cum))
            order[count++] = i;
    }
    qsort_r(order, count, sizeof *order, compare_frames, state->tree);
    sonde_buf_printf(state->out,
                     "\n## Functions\n\n"
                     "Self is the %s of the function itself, total includes what it called.\n\n",
                     state->comparison ? "change" : "value");
    sonde_buf_puts(state->out, "| self | total | function | module |\n|---:|---:|---|---|\n");
    for (uint32_t i = 0; i < count && i < ROWS; i++)
        put_function(state, order[i]);
    if (count > ROWS)
        sonde_buf_printf(state->out, "\n%u more functions are left out.\n", count - ROWS);
}

/* ---- Paths ---- */

static int compare_nodes(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = compare_values(draw_tree_node(tree, x)->self, draw_tree_node(tree, y)->self);
    return order ? order : x < y ? -1 : x > y;
}

static void put_path(const struct markdown *state, uint32_t leaf) {
    uint32_t path[DRAW_TREE_MAX_DEPTH + 1];
    uint32_t depth = draw_tree_node(state->tree, leaf)->depth;
    struct sonde_buf *out = state->out;
    for (uint32_t at = leaf, i = depth; i > 0; at = draw_tree_node(state->tree, at)->parent)
        path[i--] = at;
    put_share(state, draw_tree_node(state->tree, leaf)->self);
    sonde_buf_puts(out, depth ? ": " : ": no stack");
    for (uint32_t i = 1; i <= depth; i++) {
        const struct draw_frame *frame =
            draw_tree_frame(state->tree, draw_tree_node(state->tree, path[i])->frame);
        sonde_buf_puts(out, i > 1 ? " → " : "");
        if (depth > FRAMES && i == OUTERMOST + 1) {
            sonde_buf_printf(out, "(%u frames) → ", depth - FRAMES);
            i = depth - (FRAMES - OUTERMOST) + 1;
            frame = draw_tree_frame(state->tree, draw_tree_node(state->tree, path[i])->frame);
        }
        put_code(out, frame->name, false);
    }
    sonde_buf_putc(out, '\n');
}

static void put_paths(const struct markdown *state, uint32_t *order) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < state->tree->nodes.count; i++)
        if (draw_tree_node(state->tree, i)->self)
            order[count++] = i;
    qsort_r(order, count, sizeof *order, compare_nodes, state->tree);
    sonde_buf_printf(state->out, "\n## %s stacks\n\nOutermost function first.\n\n",
                     state->comparison ? "Most changed" : "Heaviest");
    for (uint32_t i = 0; i < count && i < PATHS; i++) {
        sonde_buf_printf(state->out, "%u. ", i + 1);
        put_path(state, order[i]);
    }
    if (count > PATHS)
        sonde_buf_printf(state->out, "\n%u more stacks are left out.\n", count - PATHS);
}

/* ---- Threads ---- */

static int compare_totals(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = compare_values(draw_tree_node(tree, x)->total, draw_tree_node(tree, y)->total);
    return order ? order : strcmp(draw_tree_name(tree, x), draw_tree_name(tree, y));
}

/* state->tree is the tree with threads. */
static void put_threads(const struct markdown *state, uint32_t *order) {
    uint32_t count = 0;
    for (uint32_t at = draw_tree_node(state->tree, DRAW_TREE_ROOT)->first_child; at;
         at = draw_tree_node(state->tree, at)->next_sibling)
        if (draw_tree_frame(state->tree, draw_tree_node(state->tree, at)->frame)->is_thread)
            order[count++] = at;
    if (count == 0)
        return;
    qsort_r(order, count, sizeof *order, compare_totals, state->tree);
    sonde_buf_puts(state->out, "\n## Threads\n\n| total | thread |\n|---:|---|\n");
    for (uint32_t i = 0; i < count && i < THREADS; i++) {
        sonde_buf_puts(state->out, "| ");
        put_share(state, draw_tree_node(state->tree, order[i])->total);
        sonde_buf_puts(state->out, " | ");
        put_code(state->out, draw_tree_name(state->tree, order[i]), true);
        sonde_buf_puts(state->out, " |\n");
    }
    if (count > THREADS)
        sonde_buf_printf(state->out, "\n%u more threads are left out.\n", count - THREADS);
}

static sonde_err draw_threads(const struct sonde_profile *profile, size_t type_index,
                              struct markdown *state, struct sonde_diag *diag) {
    struct draw_tree_options options = {.type_index = type_index, .base_index = type_index};
    sonde_err err = draw_tree_build(profile, &options, &state->tree, diag);
    if (err)
        return err;
    uint32_t *order = calloc(state->tree->nodes.count + 1, sizeof *order);
    if (order)
        put_threads(state, order);
    free(order);
    draw_tree_destroy(state->tree);
    state->tree = NULL;
    return order ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static void put_document(struct markdown *state, const struct sonde_profile *profile,
                         const struct sonde_draw_options *options, const char *type,
                         uint32_t *order) {
    put_header(state, profile, options, type);
    if (sonde_profile_sample_count(profile) == 0) {
        sonde_buf_puts(state->out, state->comparison ? "\nno difference\n" : "\nno samples\n");
        return;
    }
    put_functions(state, order);
    put_paths(state, order);
}

/* leaves: of state->tree. */
static sonde_err sum_and_put(struct markdown *state, const struct sonde_profile *profile,
                             const struct sonde_draw_options *options, size_t type_index,
                             const uint32_t *leaves) {
    uint32_t frames = state->tree->frames.count, nodes = state->tree->nodes.count;
    uint32_t *order = calloc((frames > nodes ? frames : nodes) + 1, sizeof *order);
    struct draw_accuracy accuracy = {0};
    sonde_err err = order ? draw_tree_sum(state->tree) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = draw_accuracy_init(&accuracy, profile, type_index, state->tree, leaves);
    state->accuracy = &accuracy;
    if (!err)
        put_document(state, profile, options, sonde_profile_type(profile, type_index).type, order);
    draw_accuracy_finish(&accuracy);
    free(order);
    return err;
}

sonde_err draw_markdown(const struct sonde_profile *profile,
                        const struct sonde_draw_options *options, struct sonde_buf *out,
                        struct sonde_diag *diag) {
    size_t index = draw_time_type(profile, options);
    uint32_t *leaves = calloc(sonde_profile_sample_count(profile) + 1, sizeof *leaves);
    struct draw_tree_options tree_options = {
        .type_index = index, .base_index = index, .merge_threads = true, .leaves = leaves};
    struct markdown state = {.out = out,
                             .unit = sonde_profile_type(profile, index).unit,
                             .comparison = options->comparison,
                             .whole = draw_magnitude(profile, index)};
    sonde_err err = leaves ? draw_tree_build(profile, &tree_options, &state.tree, diag)
                           : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err && sum_and_put(&state, profile, options, index, leaves))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    draw_tree_destroy(state.tree);
    free(leaves);
    return err ? err : draw_threads(profile, index, &state, diag);
}
