/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `go tool pprof -top`: the value of each function itself (flat) and with its callees
 * (cum). Profiles with negative values have shares of the sum of all magnitudes, as in pprof. A
 * difference has a table of changes instead, whose percentages are of the base's total. */
#include "api/draw/accuracy.h"
#include "api/draw/compare/changes.h"
#include "api/draw/names/view_names.h"
#include "api/draw/negatives.h"
#include "api/draw/places.h"
#include "api/draw/render.h"
#include "api/draw/title.h"
#include "api/draw/tree.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DURATION_UNIT "nanoseconds"
#define NAME_COLUMN   47
#define SUM_COLUMNS   8
#define LEAST_NAME    20
#define DOUBT_COLUMNS 12
#define PLACE_COLUMNS 15 /* of a process, and of a module */

static int64_t magnitude(int64_t value) {
    return value < 0 ? -(value + 1) : value;
}

/* The larger one comes first; 0 if they are equal. */
static int compare_values(int64_t a, int64_t b) {
    return (magnitude(a) < magnitude(b)) - (magnitude(a) > magnitude(b));
}

static int compare_names(const struct draw_frame *x, const struct draw_frame *y) {
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

static int compare_frames(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    const struct draw_frame *x = draw_tree_frame(tree, *(const uint32_t *)a);
    const struct draw_frame *y = draw_tree_frame(tree, *(const uint32_t *)b);
    int flat = compare_values(x->flat, y->flat), cum = compare_values(x->cum, y->cum);
    return flat ? flat : cum ? cum : compare_names(x, y);
}

static int compare_totals(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    const struct draw_frame *x = draw_tree_frame(tree, *(const uint32_t *)a);
    const struct draw_frame *y = draw_tree_frame(tree, *(const uint32_t *)b);
    int cum = compare_values(x->cum, y->cum);
    return cum ? cum : compare_frames(a, b, context);
}

static void put_side(struct sonde_buf *out, const char *word, const struct sonde_draw_side *side,
                     const char *unit) {
    sonde_buf_puts(out, word);
    draw_put_side(out, side, unit, draw_short_value);
    sonde_buf_putc(out, '\n');
}

/* By more than a tenth. */
static bool differ_in_length(const struct sonde_draw_comparison *comparison) {
    double before = (double)comparison->base.duration_ns;
    double after = (double)comparison->now.duration_ns;
    return before > 0 && after > 0 && (after > 1.1 * before || before > 1.1 * after);
}

static void put_comparison(const struct sonde_profile *profile, size_t type_index,
                           const struct sonde_draw_comparison *comparison, struct sonde_buf *out) {
    struct sonde_value_type type = sonde_profile_type(profile, type_index);
    sonde_buf_puts(out, "Difference: ");
    draw_put_target(out, profile);
    sonde_buf_printf(out, ", %s\n", draw_measure(profile, type_index));
    put_side(out, "Base: ", &comparison->base, type.unit);
    put_side(out, "New: ", &comparison->now, type.unit);
    sonde_buf_puts(out, "Change: ");
    draw_put_total_change(out, comparison, type.unit, draw_short_value);
    sonde_buf_putc(out, '\n');
    if (comparison->is_normalised)
        sonde_buf_puts(out, "# the new values are scaled to the base's total\n");
    else if (!draw_is_memory(&type) && differ_in_length(comparison))
        sonde_buf_puts(out,
                       "# the profiles differ in length, so flat and cum do; flat% and cum% do "
                       "not\n");
    if (comparison->note)
        sonde_buf_printf(out, "# %s\n", comparison->note);
}

/* The first mapping's file, as pprof has it, but of several processes it would be an arbitrary
 * one. */
static void put_file(const struct sonde_profile *profile, struct sonde_buf *out) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, 1);
    const char *file = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *slash = strrchr(file, '/');
    struct sonde_buf target = {0};
    if (draw_is_of_several(profile)) {
        draw_put_target(&target, profile);
        file = target.len ? target.data : file;
        slash = NULL;
    }
    if (file[0])
        sonde_buf_printf(out, "File: %s\n", slash ? slash + 1 : file);
    sonde_buf_finish(&target);
}

static void put_header(const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, int64_t total,
                       struct sonde_buf *out) {
    size_t type_index = options->type_index;
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    struct sonde_value_type type = sonde_profile_type(profile, type_index);
    put_file(profile, out);
    sonde_buf_printf(out, "Type: %s\n", type.type);
    if (info->time_unix_ns > 0) {
        sonde_buf_puts(out, "Time: ");
        draw_put_time(out, info->time_unix_ns);
        sonde_buf_putc(out, '\n');
    }
    if (info->duration_ns > 0) {
        sonde_buf_puts(out, "Duration: ");
        draw_short_value(out, info->duration_ns, DURATION_UNIT);
        sonde_buf_puts(out, ", Total samples = ");
        draw_short_value(out, total, type.unit);
        if (strcmp(type.unit, DURATION_UNIT) == 0)
            sonde_buf_printf(out, " (%.2f%%)", draw_percent(total, info->duration_ns));
        sonde_buf_putc(out, '\n');
    }
    struct sonde_buf estimate = {0};
    draw_put_accuracy(profile, type_index, &estimate);
    if (estimate.len)
        sonde_buf_printf(out, "# %s\n", estimate.data);
    estimate.len = 0;
    draw_put_negatives(&estimate, profile, SONDE_FORMAT_TEXT_TOP, options);
    if (estimate.len)
        sonde_buf_printf(out, "# %s\n", estimate.data);
    sonde_buf_finish(&estimate);
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        sonde_buf_printf(out, "# %s\n", sonde_profile_comment(profile, i));
}

static void put_cell(struct sonde_buf *out, int64_t value, const struct draw_unit *unit) {
    struct sonde_buf cell = {0};
    draw_in_unit(&cell, value, unit);
    sonde_buf_printf(out, "%10s", sonde_buf_slice(&cell).data);
    sonde_buf_finish(&cell);
}

static int64_t absolute(int64_t value) {
    return value == INT64_MIN ? INT64_MAX : value < 0 ? -value : value;
}

/* One unit for the whole table, like pprof. */
static struct draw_unit choose_unit(const struct draw_tree *tree, const uint32_t *order,
                                    uint32_t count, const char *unit) {
    int64_t smallest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct draw_frame *frame = draw_tree_frame(tree, order[i]);
        int64_t value = absolute(frame->flat ? frame->flat : frame->cum);
        if (value && (!smallest || value < smallest))
            smallest = value;
    }
    return draw_column_unit(smallest, absolute(tree->total), unit);
}

/* ---- Rows ---- */

struct rows {
    const struct draw_tree *tree;
    const uint32_t *order; /* frames */
    const char **names;    /* of the rows, as they are shown */
    uint32_t count;
    const struct draw_accuracy *accuracy;
    bool has_doubts; /* a row's value is not exact */
    /* Of several processes, by frame; NULL: no columns of processes and modules. */
    struct draw_place *places;
    bool has_modules, has_sums;
    int64_t whole, sum;
    struct draw_unit unit;
};

static double doubt(const struct rows *rows, const struct verdict_cell *cells, uint32_t row) {
    return rows->accuracy->is_known ? draw_accuracy_doubt(rows->accuracy, &cells[rows->order[row]])
                                    : 0;
}

static bool find_doubts(const struct rows *rows) {
    for (uint32_t i = 0; i < rows->count; i++)
        if (doubt(rows, rows->accuracy->flat, i) > 0 || doubt(rows, rows->accuracy->cum, i) > 0)
            return true;
    return false;
}

/* In points. */
static void put_doubt(const struct rows *rows, const struct verdict_cell *cells, uint32_t row,
                      struct sonde_buf *out) {
    double points = 100 * doubt(rows, cells, row) / (double)rows->whole;
    if (points >= 0.05)
        sonde_buf_printf(out, "%*s±%.1f", points < 9.95 ? 2 : 1, "", points);
    else
        sonde_buf_puts(out, points > 0 ? " ±<0.1" : "      ");
}

/* A column with a text, which is cut if it is too long, and an end, which never is. */
static void put_column(const char *text, const char *end, struct sonde_buf *out) {
    size_t room = PLACE_COLUMNS - strlen(end), width = draw_text_width(text), len = 0;
    size_t most = width > room ? room - 1 : room;
    sonde_buf_puts(out, "  ");
    for (size_t chars = 0; text[len] && chars < most; chars++)
        for (len++; sonde_utf8_continues(text[len]);)
            len++;
    sonde_buf_append(out, text, len);
    sonde_buf_printf(out, "%s%s", most < room ? "…" : "", end);
    for (; width < room; width++)
        sonde_buf_putc(out, ' ');
}

/* "redis-server +2" for a function of three processes. */
static void put_places(const struct rows *rows, uint32_t row, struct sonde_buf *out) {
    const struct draw_frame *frame = draw_tree_frame(rows->tree, rows->order[row]);
    const struct draw_place *place = &rows->places[rows->order[row]];
    struct sonde_buf process = {0};
    char others[16] = "";
    if (place->count > 1)
        snprintf(others, sizeof others, " +%u", place->count - 1);
    draw_put_process(&process, rows->tree, place);
    put_column(sonde_buf_slice(&process).data, others, out);
    if (rows->has_modules)
        put_column(frame->kind == SONDE_FRAME_KERNEL ? "[kernel]" : frame->module, "", out);
    sonde_buf_finish(&process);
}

static void put_row(struct rows *rows, uint32_t row, struct sonde_buf *out) {
    const struct draw_frame *frame = draw_tree_frame(rows->tree, rows->order[row]);
    rows->sum = draw_add(rows->sum, frame->flat);
    put_cell(out, frame->flat, &rows->unit);
    sonde_buf_printf(out, " %6.2f%%", draw_percent(frame->flat, rows->whole));
    if (rows->has_sums)
        sonde_buf_printf(out, " %6.2f%%", draw_percent(rows->sum, rows->whole));
    sonde_buf_putc(out, ' ');
    put_cell(out, frame->cum, &rows->unit);
    sonde_buf_printf(out, " %6.2f%%", draw_percent(frame->cum, rows->whole));
    if (rows->has_doubts) {
        put_doubt(rows, rows->accuracy->flat, row, out);
        put_doubt(rows, rows->accuracy->cum, row, out);
    }
    if (rows->places)
        put_places(rows, row, out);
    sonde_buf_printf(out, "  %s\n", rows->names[row]);
}

static size_t columns_before_name(const struct rows *rows) {
    size_t places = (size_t)(rows->places != NULL) + (rows->places && rows->has_modules);
    return NAME_COLUMN - (rows->has_sums ? 0 : SUM_COLUMNS) +
           (rows->has_doubts ? DOUBT_COLUMNS : 0) + places * (PLACE_COLUMNS + 2);
}

/* Leaves the columns of processes and modules out where names would have no space. */
static sonde_err add_places(struct rows *rows, size_t columns) {
    size_t needed = columns_before_name(rows) + LEAST_NAME + PLACE_COLUMNS + 2;
    if (columns && columns < needed)
        return SONDE_OK;
    rows->has_modules = columns == 0 || columns >= needed + PLACE_COLUMNS + 2;
    rows->places = draw_places(rows->tree);
    return rows->places ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* `columns`: of the whole table; 0 = no limit. */
static sonde_err choose_names(struct rows *rows, size_t columns, bool are_full,
                              struct sonde_arena *arena) {
    size_t taken = columns_before_name(rows);
    rows->names = sonde_arena_alloc(arena, (rows->count + 1) * sizeof *rows->names);
    if (!rows->names)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < rows->count; i++)
        rows->names[i] = draw_tree_frame(rows->tree, rows->order[i])->name;
    if (are_full)
        return SONDE_OK;
    if (columns)
        columns = columns < taken + LEAST_NAME ? LEAST_NAME : columns - taken;
    return draw_row_names(rows->names, rows->count, columns, arena, rows->names);
}

static sonde_err put_rows(struct rows *rows, const struct sonde_profile *profile,
                          const struct sonde_draw_options *options, struct sonde_buf *out) {
    struct sonde_arena arena = {0};
    uint32_t all = rows->count;
    size_t columns = options->max_columns;
    if (options->max_rows && options->max_rows < all)
        rows->count = (uint32_t)options->max_rows;
    rows->whole = draw_magnitude(profile, options->type_index);
    rows->unit = choose_unit(rows->tree, rows->order, rows->count,
                             sonde_profile_type(profile, options->type_index).unit);
    bool has_space = columns == 0 || columns >= NAME_COLUMN + DOUBT_COLUMNS + LEAST_NAME;
    rows->has_sums = !options->has_processes;
    rows->has_doubts = rows->has_sums && has_space && find_doubts(rows);
    if (rows->count < all)
        sonde_buf_printf(out, "Showing %u of %u functions\n", rows->count, all);
    sonde_err err = options->has_processes ? add_places(rows, columns) : SONDE_OK;
    if (err)
        return err;
    sonde_buf_printf(out, "      flat   flat%%%s        cum    cum%%%s%s%s  name\n",
                     rows->has_sums ? "    sum%" : "", rows->has_doubts ? " ±flat  ±cum" : "",
                     rows->places ? "  process        " : "",
                     rows->places && rows->has_modules ? "  module         " : "");
    err = choose_names(rows, columns, options->full_names, &arena);
    for (uint32_t i = 0; i < rows->count && !err; i++)
        put_row(rows, i, out);
    sonde_arena_finish(&arena);
    free(rows->places);
    return err;
}

/* Lists every frame that has a value, without the root. */
static sonde_err put_table(const struct draw_tree *tree, uint32_t *order,
                           const struct draw_accuracy *accuracy,
                           const struct sonde_profile *profile,
                           const struct sonde_draw_options *options, struct sonde_buf *out,
                           struct sonde_diag *diag) {
    uint32_t root = draw_tree_node(tree, DRAW_TREE_ROOT)->frame;
    struct rows rows = {.tree = tree, .order = order, .accuracy = accuracy};
    for (uint32_t i = 0; i < tree->frames.count; i++)
        if (i != root && (draw_tree_frame(tree, i)->flat || draw_tree_frame(tree, i)->cum))
            order[rows.count++] = i;
    qsort_r(order, rows.count, sizeof *order, options->by_total ? compare_totals : compare_frames,
            (void *)(uintptr_t)tree);
    put_header(profile, options, tree->total, out);
    if (rows.count == 0) {
        sonde_buf_puts(out, "no samples\n");
        return SONDE_OK;
    }
    if (options->function)
        return draw_calls(tree, accuracy, profile, options, out, diag);
    sonde_err err = put_rows(&rows, profile, options, out);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}

static sonde_err sum_and_put(struct draw_tree *tree, const uint32_t *leaves,
                             const struct sonde_profile *profile,
                             const struct sonde_draw_options *options, struct sonde_buf *out,
                             struct sonde_diag *diag) {
    struct draw_accuracy accuracy = {0};
    uint32_t *order = calloc(tree->frames.count + 1, sizeof *order);
    sonde_err err = order ? draw_tree_sum(tree) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = draw_accuracy_init(&accuracy, profile, options->type_index, tree, leaves);
    if (err)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err)
        err = put_table(tree, order, &accuracy, profile, options, out, diag);
    draw_accuracy_finish(&accuracy);
    free(order);
    return err;
}

sonde_err draw_top(const struct sonde_profile *profile, const struct sonde_draw_options *options,
                   struct sonde_buf *out, struct sonde_diag *diag) {
    struct draw_tree_options tree_options = {.type_index = options->type_index,
                                             .base_index = options->type_index,
                                             .merge_threads = true,
                                             .readable_names = options->function != NULL};
    struct draw_tree *tree = NULL;
    if (options->comparison && options->comparison->functions) {
        put_comparison(profile, options->type_index, options->comparison, out);
        return draw_changes_table(options->comparison->functions, options, out)
                   ? sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory")
                   : SONDE_OK;
    }
    uint32_t *leaves = calloc(sonde_profile_sample_count(profile) + 1, sizeof *leaves);
    tree_options.leaves = leaves;
    sonde_err err = leaves ? draw_tree_build(profile, &tree_options, &tree, diag)
                           : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err)
        err = sum_and_put(tree, leaves, profile, options, out, diag);
    draw_tree_destroy(tree);
    free(leaves);
    return err;
}
