/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `sonde live`: the functions, threads or processes that used the most CPU time in the
 * last windows of a StreamCpu call. It keeps the stream's dictionary, and subtracts windows when
 * they leave the span. Names come from the target and may be hostile; the drawing has no control
 * characters. One thread at a time. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LIVE_LIVE_VIEW_H
#define SONDE_CLIENTS_CLI_VERBS_LIVE_LIVE_VIEW_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define LIVE_MAX_SPAN 600

struct live_view;

/* The table covers the last `span` windows, 1..LIVE_MAX_SPAN. NULL if out of memory. */
struct live_view *live_view_create(uint32_t span);
void live_view_destroy(struct live_view *view);
/* Adds a message of the stream. False if out of memory, or if the window refers to strings, frames
 * or stacks that were not sent; only the dictionary may have changed then. */
bool live_view_add(struct live_view *view, const Sonde__V1__CpuWindow *window);

/* Stops showing what is added, or shows all of it again. */
void live_view_freeze(struct live_view *view, bool is_frozen);

/* What the rows are. PROCESSES: the outermost frames, which are the processes of a target that
 * stands for several. */
enum live_rows { LIVE_FUNCTIONS = 0, LIVE_THREADS, LIVE_PROCESSES };

struct live_options {
    const char *title;  /* begins the first line: what is shown of which target */
    const char *filter; /* show only rows that contain this, ignoring case; "" = all */
    enum live_rows by;
    bool by_total;    /* sort by total instead of self */
    bool is_paused;   /* shown in the first line */
    bool hides_idle;  /* without the threads that only wait */
    bool is_cpu_time; /* what is counted, and so the CPU time of a target without a clock */
    bool has_colour;  /* bars are blocks in colours, with the terminal's escape sequences */
    unsigned rows, columns;
    uint32_t focus; /* a row of functions + 1: show its callers and callees; 0 = the table */
    uint32_t
        selected; /* what is marked + 1: a row, or with a focus a position in the list; 0 = none */
};

/* Draws lines of at most `columns` characters: a summary, a heading, then the rows, among them the
 * selected one. Before the first window there is one line that says what is awaited. Returns the
 * number of its line, from 1; 0 = it is not there. */
unsigned live_view_draw(struct live_view *view, const struct live_options *options,
                        struct sonde_buf *out);
/* Selects the row `step` rows below the selected one, or the first or last one. */
void live_view_move(struct live_view *view, struct live_options *options, int step);
/* Focuses on the selected function or process; does nothing if none is selected. */
void live_view_enter(struct live_view *view, struct live_options *options);

#endif
