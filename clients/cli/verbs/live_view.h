/* SPDX-License-Identifier: Apache-2.0
 *
 * What `sonde live` shows: a table of the functions (or threads) that used the most CPU time in the
 * last windows of a StreamCpu. The dictionary of the stream is kept as it comes; the windows that
 * are older than the span are subtracted again. Names are the target's and may be hostile: nothing
 * in the drawing steers a terminal. Thread safety: one thread at a time. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LIVE_VIEW_H
#define SONDE_CLIENTS_CLI_VERBS_LIVE_VIEW_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define LIVE_MAX_SPAN 600

struct live_view;

/* The sum is of the last `span` windows, 1..LIVE_MAX_SPAN. NULL when out of memory. */
struct live_view *live_view_create(uint32_t span);
void live_view_destroy(struct live_view *view);
/* False when memory ran out or the window refers to what never came: the view stays as it was but
 * for its dictionary. */
bool live_view_add(struct live_view *view, const Sonde__V1__CpuWindow *window);

struct live_options {
    const char *filter; /* only rows that contain it, in any case; "" = all */
    bool by_thread;     /* threads instead of functions */
    bool by_total;      /* ordered by total instead of self */
    bool is_paused;     /* said in the first line */
    unsigned rows, columns;
};

/* Lines, each of at most `columns` characters: what the windows were, a heading, then rows. */
void live_view_draw(struct live_view *view, const struct live_options *options,
                    struct sonde_buf *out);

#endif
