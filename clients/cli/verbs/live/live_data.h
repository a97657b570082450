/* SPDX-License-Identifier: Apache-2.0
 *
 * What a live view keeps of its stream, for the files that make and draw it. Numbers of rows are
 * stable: they index `items` of a table as long as the view lives. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LIVE_LIVE_DATA_H
#define SONDE_CLIENTS_CLI_VERBS_LIVE_LIVE_DATA_H

#include "clients/cli/verbs/live/live_view.h"

/* A row of the table: a function, code without a name, or a thread. */
struct row {
    char *text;
    uint64_t self_ns, total_ns;
    uint32_t seen; /* number of the last stack counted, + 1 */
};

struct stack {
    uint32_t *rows;              /* leaf first */
    uint32_t count, thread, tid; /* tid 0 = unknown */
    uint64_t ns;                 /* sum over the windows in the span */
    bool is_hidden;              /* its thread only waits there, see live_hide_idle */
};

static inline uint64_t live_shown_ns(const struct stack *stack) {
    return stack->is_hidden ? 0 : stack->ns;
}

struct count {
    uint32_t stack;
    uint64_t ns;
};

struct window {
    struct count *counts;
    uint32_t count;
    uint64_t wall_ns, cpu_ns, dropped;
};

/* Of the windows in the span. */
struct span_sums {
    uint64_t wall_ns, cpu_ns, dropped, merged;
};

struct table {
    struct row *items;
    uint32_t count;
};

struct live_view {
    char **strings;
    uint32_t string_count, frame_count, stack_count;
    uint32_t *string_row, *string_thread; /* row + 1 of the function or thread with this name */
    uint32_t *frame_row;
    struct stack *stacks;
    struct table functions, threads;
    struct window windows[LIVE_MAX_SPAN];
    uint32_t span, next, filled;
    uint64_t merged;
    char clock[32];
    bool goes_on;            /* the next message continues the same window */
    bool is_frozen;          /* the stacks' times do not change */
    struct span_sums frozen; /* what live_sums returns then */
};

struct span_sums live_sums(const struct live_view *view);

/* Hides the stacks in which their threads spent at least 90 % of their time, or shows all. False if
 * out of memory. */
bool live_hide_idle(struct live_view *view, bool is_on);

/* Appends at most `columns` characters, without control characters. */
void live_put_text(struct sonde_buf *out, const char *text, unsigned columns);
void live_put_line(struct sonde_buf *out, const char *text, unsigned columns);
/* The columns before the name in a row. */
#define LIVE_BAR_COLUMNS 39
/* Appends a row: two shares, a bar and a name. */
struct live_bar {
    double first, second; /* percent; the bar shows both, '#' up to the first */
    const char *name;
    bool has_colour;
};
void live_put_bar(struct sonde_buf *out, const struct live_bar *bar, unsigned columns);

/* ---- Callers and callees of a function ---- */

struct live_call {
    uint32_t row; /* LIVE_NO_ROW: there is none */
    uint64_t ns;
};
#define LIVE_NO_ROW UINT32_MAX

/* Sorted by time. A stack in which the function calls itself counts once for each of its callers
 * and callees, and the function is not one of its own. */
struct live_calls {
    struct live_call *callers, *callees; /* a callee LIVE_NO_ROW is the function's own time */
    uint32_t caller_count, callee_count;
    uint64_t total_ns, all_ns;
};
/* False if out of memory. */
bool live_calls_count(const struct live_view *view, uint32_t function, struct live_calls *calls);
void live_calls_finish(struct live_calls *calls);
/* Draws what live_view_draw does with a focus. */
unsigned live_calls_draw(const struct live_view *view, const struct live_options *options,
                         struct sonde_buf *out);
/* The number of functions that live_calls_draw lists, and the row of the one at that position (from
 * 0); LIVE_NO_ROW if it is none. */
uint32_t live_calls_listed(const struct live_view *view, const struct live_options *options,
                           uint32_t position, uint32_t *row);

#endif
