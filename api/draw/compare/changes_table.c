/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns are: the change of the function itself (flat) and with its callees (cum), each as a value
 * and, with its interval, as a change of its share of the total or in percent of the base's. */
#include "api/draw/compare/changes.h"
#include "api/draw/names/view_names.h"
#include "api/draw/render.h"

#include <math.h>
#include <string.h>

#define VALUE_COLUMN   11 /* a sign and what draw_column_unit allows */
#define PERCENT_COLUMN 18
#define NAME_COLUMN    63
#define LEAST_NAME     16
#define MAX_CAUSES     5

struct table {
    const struct sonde_comparison *comparison;
    const struct sonde_draw_options *options;
    struct sonde_buf *out;
    struct draw_unit unit;
    struct sonde_arena *arena; /* for names */
    double whole;              /* what percentages are of */
    bool is_normalised;
};

/* In the type's unit. */
static int64_t value_of(const struct table *table, const struct verdict_change changes[2]) {
    double value = table->is_normalised
                       ? round(changes[VERDICT_SHARE].change * table->comparison->whole.before)
                       : round(changes[VERDICT_AMOUNT].change);
    return value >= 9.2e18 ? INT64_MAX : value <= -9.2e18 ? -INT64_MAX : (int64_t)value;
}

static void put_right(struct sonde_buf *out, struct sonde_buf *cell, size_t width) {
    const char *text = sonde_buf_slice(cell).data;
    for (size_t i = draw_text_width(text); i < width; i++)
        sonde_buf_putc(out, ' ');
    sonde_buf_puts(out, text);
    sonde_buf_finish(cell);
}

static void put_change(const struct table *table, const struct verdict_change changes[2]) {
    const struct verdict_change *change = &changes[table->comparison->measure];
    struct sonde_buf value = {0}, percent = {0};
    int64_t difference = value_of(table, changes);
    if (difference > 0)
        sonde_buf_putc(&value, '+');
    draw_in_unit(&value, difference, &table->unit);
    put_right(table->out, &value, VALUE_COLUMN);
    bool is_absent = change->before == 0 && change->after == 0;
    if (!is_absent)
        draw_put_percent_change(&percent, change, table->whole);
    put_right(table->out, &percent, PERCENT_COLUMN);
    const char *mark = is_absent ? "" : draw_verdict_mark(table->comparison, change);
    sonde_buf_puts(table->out, mark[0] ? mark : "  ");
}

/* Replaces names by readable ones, unless full ones are wanted. */
static sonde_err show_names(const struct table *table, const char **names, size_t count,
                            size_t columns) {
    if (table->options->full_names)
        return SONDE_OK;
    return draw_row_names(names, count, columns, table->arena, names);
}

static bool is_shown(const struct table *table, const struct sonde_comparison_function *function) {
    enum verdict_measure measure = table->comparison->measure;
    int64_t self = value_of(table, function->self), total = value_of(table, function->total);
    if (table->options->comparison && table->options->comparison->growth_only)
        return self > 0 || total > 0;
    return self || total || function->self[measure].change != 0 ||
           function->total[measure].change != 0;
}

/* The largest unit that does not round the smallest change among the rows to 0. */
static struct draw_unit choose_unit(const struct table *table, size_t rows) {
    const struct sonde_comparison *comparison = table->comparison;
    int64_t smallest = 0, largest = 0;
    for (size_t i = 0, shown = 0; i < comparison->function_count && shown < rows; i++) {
        const struct sonde_comparison_function *function = &comparison->functions[i];
        int64_t self = value_of(table, function->self);
        int64_t total = value_of(table, function->total);
        int64_t value = self ? self : total;
        if (!is_shown(table, function))
            continue;
        shown++;
        value = value < 0 ? -value : value;
        if (value && (!smallest || value < smallest))
            smallest = value;
        largest = value > largest ? value : largest;
    }
    return draw_column_unit(smallest, largest, comparison->type.unit);
}

static sonde_err put_cause(const struct table *table, const struct sonde_comparison_cause *cause) {
    const char *names[1 + SONDE_COMPARISON_CALLERS] = {cause->function->name};
    struct sonde_buf *out = table->out;
    memcpy(names + 1, cause->callers, cause->caller_count * sizeof *names);
    sonde_err err = show_names(table, names, 1 + cause->caller_count, 0);
    if (err)
        return err;
    sonde_buf_printf(out, "# explained by %s: ", names[0]);
    draw_put_percent_change(out, &cause->function->total[table->comparison->measure], table->whole);
    for (size_t i = 0; i < cause->caller_count; i++)
        sonde_buf_printf(out, " ← %s", names[1 + i]);
    sonde_buf_puts(out, cause->has_more_callers ? " ← …\n" : "\n");
    return SONDE_OK;
}

/* One line if no change is certain. */
static void put_verdict(const struct sonde_comparison *comparison, struct sonde_buf *out) {
    bool has_noise = false;
    for (size_t i = 0; i < comparison->function_count; i++) {
        const struct verdict_change *self = &comparison->functions[i].self[comparison->measure];
        const struct verdict_change *total = &comparison->functions[i].total[comparison->measure];
        if (sonde_is_certain(self) || sonde_is_certain(total))
            return;
        has_noise |= self->verdict == VERDICT_NOISE || total->verdict == VERDICT_NOISE;
    }
    if (has_noise)
        sonde_buf_puts(out, "# verdict: no function is certain to have changed\n");
    else if (comparison->function_count)
        sonde_buf_puts(out, "# verdict: too few samples to see a change\n");
}

static sonde_err put_head(const struct table *table) {
    sonde_err err = SONDE_OK;
    const struct sonde_comparison *comparison = table->comparison;
    sonde_buf_puts(table->out, comparison->measure == VERDICT_SHARE
                                   ? "# flat% and cum% are changes of the share of the total\n"
                                   : "# flat% and cum% are shares of the base's total\n");
    if (comparison->has_verdicts)
        sonde_buf_printf(table->out,
                         "# ± is the %g %% interval; ~ is within noise, ? has too few samples\n",
                         100 * comparison->confidence);
    for (size_t i = 0; i < comparison->cause_count && i < MAX_CAUSES && !err; i++)
        err = put_cause(table, &comparison->causes[i]);
    if (comparison->has_verdicts)
        put_verdict(comparison, table->out);
    return err;
}

/* The first functions that changed. */
static sonde_err put_rows(const struct table *table, size_t count) {
    const struct sonde_comparison *comparison = table->comparison;
    size_t columns = table->options->max_columns, chosen = 0;
    const struct sonde_comparison_function **rows =
        sonde_arena_alloc(table->arena, count * sizeof *rows);
    const char **names = sonde_arena_alloc(table->arena, count * sizeof *names);
    if (!rows || !names)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < comparison->function_count && chosen < count; i++) {
        if (!is_shown(table, &comparison->functions[i]))
            continue;
        rows[chosen] = &comparison->functions[i];
        names[chosen++] = comparison->functions[i].name;
    }
    if (columns)
        columns = columns < NAME_COLUMN + LEAST_NAME ? LEAST_NAME : columns - NAME_COLUMN;
    sonde_err err = show_names(table, names, chosen, columns);
    for (size_t i = 0; i < chosen && !err; i++) {
        put_change(table, rows[i]->self);
        put_change(table, rows[i]->total);
        sonde_buf_printf(table->out, " %s\n", names[i]);
    }
    return err;
}

static sonde_err put_table(struct table *table) {
    const struct sonde_comparison *comparison = table->comparison;
    size_t count = 0, most = table->options->max_rows;
    for (size_t i = 0; i < comparison->function_count; i++)
        count += is_shown(table, &comparison->functions[i]);
    size_t rows = most && most < count ? most : count;
    table->unit = choose_unit(table, rows);
    sonde_err err = put_head(table);
    if (err || count == 0) {
        sonde_buf_puts(table->out, "no difference\n");
        return err;
    }
    if (rows < count)
        sonde_buf_printf(table->out, "Showing %zu of %zu functions\n", rows, count);
    sonde_buf_printf(table->out, "%*s%*s  %*s%*s   name\n", VALUE_COLUMN, "flat", PERCENT_COLUMN,
                     "flat%", VALUE_COLUMN, "cum", PERCENT_COLUMN, "cum%");
    return put_rows(table, rows);
}

sonde_err draw_changes_table(const struct sonde_comparison *comparison,
                             const struct sonde_draw_options *options, struct sonde_buf *out) {
    struct sonde_arena arena = {0};
    struct table table = {.comparison = comparison,
                          .options = options,
                          .out = out,
                          .arena = &arena,
                          .whole = sonde_comparison_whole(comparison),
                          .is_normalised =
                              options->comparison && options->comparison->is_normalised};
    sonde_err err = put_table(&table);
    sonde_arena_finish(&arena);
    return err;
}
