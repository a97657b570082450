/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/names/view_names.h"
#include "clients/cli/verbs/live/live_data.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD_LINES 4 /* the summary, the function, and a heading for each list */

/* ---- Counting ---- */

/* Time by row, while the stacks are counted. */
struct sums {
    uint64_t *ns;
    uint32_t *seen; /* number of the last stack counted, + 1 */
};

static void add(struct sums *sums, uint32_t row, uint32_t stack, uint64_t ns) {
    if (sums->seen[row] == stack + 1)
        return;
    sums->seen[row] = stack + 1;
    sums->ns[row] += ns;
}

/* Adds a stack, its leaf first, to the sums of the rows next to the function. `none` is the row for
 * a neighbour that does not exist. */
static void add_stack(const struct live_view *view, uint32_t number, uint32_t function,
                      struct sums *callers, struct sums *callees, struct live_calls *calls) {
    const struct stack *stack = &view->stacks[number];
    uint32_t none = view->functions.count;
    bool contains = false;
    for (uint32_t i = 0; i < stack->count; i++) {
        uint32_t caller = i + 1 < stack->count ? stack->rows[i + 1] : none;
        uint32_t callee = i > 0 ? stack->rows[i - 1] : none;
        if (stack->rows[i] != function)
            continue;
        contains = true;
        if (caller != function)
            add(callers, caller, number, stack->ns);
        if (callee != function)
            add(callees, callee, number, stack->ns);
    }
    calls->all_ns += stack->ns;
    calls->total_ns += contains ? stack->ns : 0;
}

static int by_time(const void *a, const void *b) {
    const struct live_call *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Makes a sorted list of the sums that are not 0. */
static struct live_call *list_of(const struct sums *sums, uint32_t rows, uint32_t *count) {
    struct live_call *list = malloc((rows + 1) * sizeof *list);
    *count = 0;
    for (uint32_t i = 0; i <= rows && list; i++)
        if (sums->ns[i])
            list[(*count)++] = (struct live_call){i < rows ? i : LIVE_NO_ROW, sums->ns[i]};
    if (*count > 1)
        qsort(list, *count, sizeof *list, by_time);
    return list;
}

bool live_calls_count(const struct live_view *view, uint32_t function, struct live_calls *calls) {
    uint32_t rows = view->functions.count;
    struct sums sums[2];
    *calls = (struct live_calls){0};
    for (int i = 0; i < 2; i++)
        sums[i] =
            (struct sums){calloc(rows + 1, sizeof(uint64_t)), calloc(rows + 1, sizeof(uint32_t))};
    bool good = sums[0].ns && sums[0].seen && sums[1].ns && sums[1].seen;
    for (uint32_t i = 0; i < view->stack_count && good; i++)
        if (live_shown_ns(&view->stacks[i]))
            add_stack(view, i, function, &sums[0], &sums[1], calls);
    if (good) {
        calls->callers = list_of(&sums[0], rows, &calls->caller_count);
        calls->callees = list_of(&sums[1], rows, &calls->callee_count);
        good = calls->callers && calls->callees;
    }
    for (int i = 0; i < 2; i++) {
        free(sums[i].ns);
        free(sums[i].seen);
    }
    if (!good)
        live_calls_finish(calls);
    return good;
}

void live_calls_finish(struct live_calls *calls) {
    free(calls->callers);
    free(calls->callees);
    *calls = (struct live_calls){0};
}

/* ---- Drawing ---- */

/* How many of each are shown: half of the screen each, unless the other needs less. */
static void limit(struct live_calls *calls, unsigned rows) {
    uint32_t visible = rows > HEAD_LINES ? rows - HEAD_LINES : 0, half = visible / 2;
    uint32_t spare =
        calls->callee_count < visible - half ? visible - half - calls->callee_count : 0;
    if (calls->caller_count > half + spare)
        calls->caller_count = half + spare;
    if (calls->callee_count > visible - calls->caller_count)
        calls->callee_count = visible - calls->caller_count;
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_function(const struct live_view *view, const struct live_options *options,
                         const struct live_calls *calls, struct sonde_buf *out) {
    char text[64];
    int len =
        snprintf(text, sizeof text, "%5.1f %% of all: ", percent(calls->total_ns, calls->all_ns));
    live_put_text(out, text, options->columns);
    live_put_line(out, view->functions.items[options->focus - 1].text,
                  options->columns > (unsigned)len ? options->columns - (unsigned)len : 0);
}

static void put_list(const struct live_view *view, const struct live_calls *calls, bool are_callees,
                     const struct live_options *options, struct sonde_buf *out) {
    unsigned columns = options->columns;
    const struct live_call *list = are_callees ? calls->callees : calls->callers;
    uint32_t count = are_callees ? calls->callee_count : calls->caller_count;
    char text[64];
    snprintf(text, sizeof text, "%7s %7s  %s", "of it", "of all",
             are_callees ? "calls" : "called by");
    live_put_line(out, text, columns);
    struct sonde_arena arena = {0};
    const char *none = are_callees ? "[its own code]" : "[nothing above it]";
    const char **names = sonde_arena_alloc(&arena, (count + 1) * sizeof *names);
    for (uint32_t i = 0; names && i < count; i++)
        names[i] = list[i].row == LIVE_NO_ROW ? none : view->functions.items[list[i].row].text;
    bool is_done =
        names &&
        draw_row_names(names, count, columns > LIVE_BAR_COLUMNS ? columns - LIVE_BAR_COLUMNS : 1,
                       &arena, names) == SONDE_OK;
    out->failed |= !is_done;
    for (uint32_t i = 0; i < count && is_done; i++) {
        const struct live_bar bar = {.first = percent(list[i].ns, calls->total_ns),
                                     .second = percent(list[i].ns, calls->all_ns),
                                     .name = names[i],
                                     .has_colour = options->has_colour};
        live_put_bar(out, &bar, columns);
    }
    sonde_arena_finish(&arena);
}

unsigned live_calls_draw(const struct live_view *view, const struct live_options *options,
                         struct sonde_buf *out) {
    struct live_calls calls;
    if (!live_calls_count(view, options->focus - 1, &calls))
        return 0;
    limit(&calls, options->rows);
    put_function(view, options, &calls, out);
    put_list(view, &calls, false, options, out);
    put_list(view, &calls, true, options, out);
    uint32_t at = options->selected, callers = calls.caller_count;
    bool is_listed = at > 0 && at <= callers + calls.callee_count;
    live_calls_finish(&calls);
    return !is_listed ? 0 : at <= callers ? HEAD_LINES - 1 + at : HEAD_LINES + at;
}

uint32_t live_calls_listed(const struct live_view *view, const struct live_options *options,
                           uint32_t position, uint32_t *row) {
    struct live_calls calls;
    *row = LIVE_NO_ROW;
    if (!live_calls_count(view, options->focus - 1, &calls))
        return 0;
    limit(&calls, options->rows);
    uint32_t callers = calls.caller_count, count = callers + calls.callee_count;
    if (position < count)
        *row = position < callers ? calls.callers[position].row
                                  : calls.callees[position - callers].row;
    live_calls_finish(&calls);
    return count;
}
