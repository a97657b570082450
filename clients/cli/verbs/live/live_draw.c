/* SPDX-License-Identifier: Apache-2.0 */
#include "api/clock_name.h"
#include "api/draw/names/view_names.h"
#include "api/draw/short_name.h"
#include "api/text/utf8.h"
#include "clients/cli/verbs/live/live_data.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR        20
#define HEAD_LINES 2

/* ---- The drawing ---- */

/* The rows of a stack, its leaf first. */
static const uint32_t *rows_of(const struct stack *stack, enum live_rows by, uint32_t *count) {
    *count = by == LIVE_THREADS ? stack->thread != UINT32_MAX : stack->count;
    if (by == LIVE_THREADS)
        return &stack->thread;
    uint32_t skipped = by == LIVE_PROCESSES && *count > 0 ? *count - 1 : 0;
    *count -= skipped;
    return stack->rows + skipped;
}

static void count_rows(struct live_view *view, struct table *table, enum live_rows by) {
    for (uint32_t i = 0; i < table->count; i++)
        table->items[i].self_ns = table->items[i].total_ns = table->items[i].seen = 0;
    for (uint32_t i = 0; i < view->stack_count; i++) {
        const struct stack *stack = &view->stacks[i];
        uint32_t count;
        const uint32_t *rows = rows_of(stack, by, &count);
        uint64_t ns = live_shown_ns(stack);
        for (uint32_t j = 0; j < count && ns; j++) {
            struct row *row = &table->items[rows[j]];
            row->self_ns += j == 0 ? ns : 0;
            row->total_ns += row->seen != i + 1 ? ns : 0;
            row->seen = i + 1;
        }
    }
}

static int by_self(const void *a, const void *b) {
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    if (x->self_ns != y->self_ns)
        return x->self_ns > y->self_ns ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int by_total(const void *a, const void *b) {
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return by_self(a, b);
}

/* Counts the bytes of one UTF-8 character once, and replaces control characters and invalid bytes,
 * which count each. */
void live_put_text(struct sonde_buf *out, const char *text, unsigned columns) {
    for (size_t i = 0, len = strlen(text); i < len && columns-- > 0;)
        i += sonde_utf8_put_next(out, text + i, len - i, '?');
}

void live_put_line(struct sonde_buf *out, const char *text, unsigned columns) {
    live_put_text(out, text, columns);
    sonde_buf_putc(out, '\n');
}

static void put_summary(const struct live_view *view, const struct live_options *options,
                        uint64_t all_ns, struct sonde_buf *out) {
    struct span_sums sums = live_sums(view);
    char text[240], merged[80] = "";
    bool is_best = !view->clock[0] || sonde_clock_is_best(view->clock);
    if (sums.cpu_ns == 0 && options->is_cpu_time)
        sums.cpu_ns = all_ns;
    if (sums.merged)
        snprintf(merged, sizeof merged, "  %" PRIu64 " windows merged: this terminal is too slow",
                 sums.merged);
    snprintf(text, sizeof text, "%s%.60s  %scpu %.1f %%  last %.1f s  dropped %" PRIu64 "%s%s%s",
             options->is_paused ? "PAUSED  " : "", options->title,
             options->hides_idle ? "idle hidden  " : "",
             sums.wall_ns ? 100.0 * (double)sums.cpu_ns / (double)sums.wall_ns : 0.0,
             (double)sums.wall_ns / 1e9, sums.dropped, merged, is_best ? "" : "  clock ",
             is_best ? "" : view->clock);
    live_put_line(out, text, options->columns);
}

static void put_awaited(const struct live_options *options, struct sonde_buf *out) {
    char text[200];
    snprintf(text, sizeof text, "waiting for the first samples of %.100s ...", options->title);
    live_put_line(out, text, options->columns);
}

static void put_heading(const struct live_options *options, struct sonde_buf *out) {
    static const char *const names[] = {"function", "thread", "process"};
    char text[200];
    snprintf(text, sizeof text, "%7s %7s  %-*s  %s", options->by_total ? "self" : "SELF",
             options->by_total ? "TOTAL" : "total", BAR, "", names[options->by]);
    live_put_line(out, text, options->columns);
}

/* How many characters of a bar a share fills. */
static int length_of(double percent) {
    int length = percent >= 2.5 ? (int)((percent - 2.5) * BAR / 100 + 1) : 0;
    return length > BAR ? BAR : length;
}

static void put_times(struct sonde_buf *out, const char *text, int times) {
    while (times-- > 0)
        sonde_buf_puts(out, text);
}

static void put_blocks(struct sonde_buf *out, int first, int second) {
    sonde_buf_puts(out, "\033[31m");
    put_times(out, "█", first);
    sonde_buf_puts(out, "\033[33m");
    put_times(out, "▒", second - first);
    sonde_buf_puts(out, "\033[39m");
    put_times(out, " ", BAR - (second > first ? second : first));
}

static void put_letters(struct sonde_buf *out, int first, int second) {
    put_times(out, "#", first);
    put_times(out, "-", second - first);
    put_times(out, " ", BAR - (second > first ? second : first));
}

void live_put_bar(struct sonde_buf *out, const struct live_bar *shown, unsigned columns) {
    struct sonde_buf name = {0}, bar = {0};
    int first = length_of(shown->first), second = length_of(shown->second);
    char shares[32];
    int len = snprintf(shares, sizeof shares, "%5.1f %% %5.1f %%  ", shown->first, shown->second);
    live_put_text(out, shares, columns);
    unsigned room = columns > (unsigned)len ? columns - (unsigned)len : 0;
    if (shown->has_colour && room >= BAR) {
        put_blocks(out, first, second);
    } else {
        put_letters(&bar, first, second);
        live_put_text(out, sonde_buf_slice(&bar).data, room);
    }
    room = room > BAR ? room - BAR : 0;
    live_put_text(out, "  ", room);
    if (room > 2) {
        draw_short_name(&name, shown->name, room - 2);
        live_put_text(out, name.len ? name.data : "", room - 2);
    }
    sonde_buf_putc(out, '\n');
    sonde_buf_finish(&name);
    sonde_buf_finish(&bar);
}

static void put_row(const struct row *row, const char *name, uint64_t all_ns,
                    const struct live_options *options, struct sonde_buf *out) {
    const struct live_bar bar = {100.0 * (double)row->self_ns / (double)all_ns,
                                 100.0 * (double)row->total_ns / (double)all_ns, name,
                                 options->has_colour};
    live_put_bar(out, &bar, options->columns);
}

static struct row **choose_rows(struct table *table, const char *filter, uint32_t *count) {
    struct row **rows = malloc((table->count + 1) * sizeof *rows);
    *count = 0;
    for (uint32_t i = 0; rows && i < table->count; i++)
        if (table->items[i].total_ns && (!*filter || strcasestr(table->items[i].text, filter)))
            rows[(*count)++] = &table->items[i];
    return rows;
}

static struct table *table_of(struct live_view *view, const struct live_options *options) {
    return options->by == LIVE_THREADS ? &view->threads : &view->functions;
}

/* The rows to show, in their order. The caller frees them. */
static struct row **order_rows(struct live_view *view, const struct live_options *options,
                               uint32_t *count) {
    struct table *table = table_of(view, options);
    count_rows(view, table, options->by);
    struct row **rows = choose_rows(table, options->filter, count);
    if (*count > 1)
        qsort(rows, *count, sizeof *rows, options->by_total ? by_total : by_self);
    return rows;
}

/* The position of the selected row; count if it is not among them. */
static uint32_t find_selected(const struct table *table, struct row **rows, uint32_t count,
                              uint32_t selected) {
    uint32_t at = 0;
    while (at < count && (selected == 0 || rows[at] != &table->items[selected - 1]))
        at++;
    return at;
}

/* Draws rows with names that fit. */
static void put_named_rows(struct row *const *rows, uint32_t count,
                           const struct live_options *options, uint64_t all_ns,
                           struct sonde_buf *out) {
    struct sonde_arena arena = {0};
    unsigned columns =
        options->columns > LIVE_BAR_COLUMNS ? options->columns - LIVE_BAR_COLUMNS : 1;
    const char **names = sonde_arena_alloc(&arena, (count + 1) * sizeof *names);
    for (uint32_t i = 0; names && i < count; i++)
        names[i] = rows[i]->text;
    bool is_done = names && (options->by == LIVE_THREADS ||
                             draw_row_names(names, count, columns, &arena, names) == SONDE_OK);
    out->failed |= !is_done;
    for (uint32_t i = 0; i < count && is_done; i++)
        put_row(rows[i], names[i], all_ns, options, out);
    sonde_arena_finish(&arena);
}

static unsigned put_rows(struct live_view *view, const struct live_options *options,
                         uint64_t all_ns, struct sonde_buf *out) {
    uint32_t count, visible = options->rows > HEAD_LINES ? options->rows - HEAD_LINES : 0;
    struct row **rows = order_rows(view, options, &count);
    uint32_t marked = find_selected(table_of(view, options), rows, count, options->selected);
    uint32_t first = marked < count && marked >= visible ? marked + 1 - visible : 0;
    uint32_t shown = count - first < visible ? count - first : visible;
    put_named_rows(rows + first, shown, options, all_ns, out);
    if (count == 0)
        live_put_line(out, all_ns ? "no matches" : "no samples", options->columns);
    free(rows);
    return marked < count && visible ? HEAD_LINES + marked - first + 1 : 0;
}

unsigned live_view_draw(struct live_view *view, const struct live_options *options,
                        struct sonde_buf *out) {
    uint64_t all_ns = 0;
    if (view->filled == 0) {
        put_awaited(options, out);
        return 0;
    }
    out->failed |= !live_hide_idle(view, options->hides_idle);
    for (uint32_t i = 0; i < view->stack_count; i++)
        all_ns += live_shown_ns(&view->stacks[i]);
    put_summary(view, options, all_ns, out);
    if (options->focus)
        return live_calls_draw(view, options, out);
    put_heading(options, out);
    return put_rows(view, options, all_ns, out);
}

/* ---- The selection ---- */

/* One step from `at` among count items; from nowhere (count) to the first or the last one. */
static uint32_t step_from(uint32_t at, uint32_t count, int step) {
    if (at >= count)
        return step > 0 ? 0 : count - 1;
    int64_t moved = (int64_t)at + step;
    return moved < 0 ? 0 : moved >= count ? count - 1 : (uint32_t)moved;
}

void live_view_move(struct live_view *view, struct live_options *options, int step) {
    uint32_t count, row;
    if (options->focus) {
        count = live_calls_listed(view, options, 0, &row);
        uint32_t at = options->selected ? options->selected - 1 : count;
        options->selected = count ? step_from(at, count, step) + 1 : 0;
        return;
    }
    const struct table *table = table_of(view, options);
    struct row **rows = order_rows(view, options, &count);
    uint32_t at = find_selected(table, rows, count, options->selected);
    options->selected = count ? (uint32_t)(rows[step_from(at, count, step)] - table->items) + 1 : 0;
    free(rows);
}

void live_view_enter(struct live_view *view, struct live_options *options) {
    uint32_t row = options->selected - 1;
    if (options->by == LIVE_THREADS || options->selected == 0)
        return;
    if (options->focus &&
        (live_calls_listed(view, options, options->selected - 1, &row) == 0 || row == LIVE_NO_ROW))
        return;
    options->focus = row + 1;
    options->selected = 0;
}
