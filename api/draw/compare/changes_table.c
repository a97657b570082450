/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns are: the change of the function itself (flat) and with its callees (cum), each as a value
 * and, with its interval, as a change of its share of the total or in percent of the base's. */
#include "api/draw/compare/changes.h"
#include "api/draw/render.h"
#include "api/draw/short_name.h"

#include <math.h>
#include <string.h>

#define VALUE_COLUMN   10
#define PERCENT_COLUMN 18
#define NAME_COLUMN    61
#define LEAST_NAME     20
#define MAX_CAUSES     5

struct table {
    const struct sonde_comparison *comparison;
    const struct sonde_draw_options *options;
    struct sonde_buf *out;
    struct draw_unit unit;
    double whole; /* what percentages are of */
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

static void put_name(const struct table *table, const char *name) {
    size_t columns = table->options->max_columns;
    sonde_buf_putc(table->out, ' ');
    if (columns == 0)
        sonde_buf_puts(table->out, name);
    else
        draw_short_name(table->out, name,
                        columns < NAME_COLUMN + LEAST_NAME ? LEAST_NAME : columns - NAME_COLUMN);
    sonde_buf_putc(table->out, '\n');
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

static void put_cause(const struct table *table, const struct sonde_comparison_cause *cause) {
    struct sonde_buf *out = table->out;
    sonde_buf_puts(out, "# explained by ");
    sonde_buf_puts(out, cause->function->name);
    sonde_buf_puts(out, ": ");
    draw_put_percent_change(out, &cause->function->total[table->comparison->measure], table->whole);
    for (size_t i = 0; i < cause->caller_count; i++)
        sonde_buf_printf(out, " ← %s", cause->callers[i]);
    sonde_buf_puts(out, cause->has_more_callers ? " ← …\n" : "\n");
}

static void put_head(const struct table *table) {
    const struct sonde_comparison *comparison = table->comparison;
    sonde_buf_puts(table->out, comparison->measure == VERDICT_SHARE
                                   ? "# flat% and cum% are changes of the share of the total\n"
                                   : "# flat% and cum% are shares of the base's total\n");
    if (comparison->has_verdicts)
        sonde_buf_printf(table->out,
                         "# ± is the %g %% interval; ~ is within noise, ? has too few samples\n",
                         100 * comparison->confidence);
    for (size_t i = 0; i < comparison->cause_count && i < MAX_CAUSES; i++)
        put_cause(table, &comparison->causes[i]);
}

void draw_changes_table(const struct sonde_comparison *comparison,
                        const struct sonde_draw_options *options, struct sonde_buf *out) {
    struct table table = {.comparison = comparison,
                          .options = options,
                          .out = out,
                          .whole = sonde_comparison_whole(comparison),
                          .is_normalised =
                              options->comparison && options->comparison->is_normalised};
    size_t count = 0, rows, shown = 0;
    for (size_t i = 0; i < comparison->function_count; i++)
        count += is_shown(&table, &comparison->functions[i]);
    rows = options->max_rows && options->max_rows < count ? options->max_rows : count;
    table.unit = choose_unit(&table, rows);
    put_head(&table);
    if (count == 0) {
        sonde_buf_puts(out, "no difference\n");
        return;
    }
    if (rows < count)
        sonde_buf_printf(out, "Showing %zu of %zu functions\n", rows, count);
    sonde_buf_puts(out, "      flat             flat%          cum              cum%   name\n");
    for (size_t i = 0; i < comparison->function_count && shown < rows; i++) {
        const struct sonde_comparison_function *function = &comparison->functions[i];
        if (!is_shown(&table, function))
            continue;
        shown++;
        put_change(&table, function->self);
        put_change(&table, function->total);
        put_name(&table, function->name);
    }
}
