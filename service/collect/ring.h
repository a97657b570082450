/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of a session that no controller has acknowledged, by seq.
 *
 * When they exceed limit_bytes, windows of one process that were never sent are merged into longer
 * ones, pair by pair, which loses only resolution in time. If that is not enough, the oldest are
 * dropped and counted. A window that was sent keeps its contents, because it may be stored already.
 *
 * Thread safety: none (collect.h's lock). */
#ifndef SONDE_SERVICE_COLLECT_RING_H
#define SONDE_SERVICE_COLLECT_RING_H

#include "api/profile/event.h"
#include "service/collect/tables.h"

#define RING_MAX_ROWS 150000u /* of a window */

/* Windows of an event of sonde_events, by its index, can be merged. Others cannot. */
enum { RING_KINDS = SONDE_EVENTS, RING_OTHER = RING_KINDS, RING_TOTALS };

struct ring_row {
    uint32_t stack;  /* TOTALS: the text of the process */
    uint32_t thread; /* index into threads; TOTALS: the text of the thread */
    int64_t value;
};

struct ring_item {
    struct ring_item *next;
    uint32_t kind; /* an index into sonde_events, RING_OTHER or RING_TOTALS */
    bool is_sent;
    uint64_t seq;
    uint32_t process, event, clock; /* numbers in the tables */
    int64_t begin_unix_s;
    uint32_t length_s, merged;
    uint64_t period_ns, samples, dropped, truncated;
    uint64_t cpu_from_ns, cpu_until_ns; /* as in store_window */
    double weight;
    uint32_t *threads; /* texts */
    uint32_t thread_count;
    struct ring_row *rows; /* by stack, then thread */
    uint32_t row_count;
};

struct ring {
    struct ring_item *first, **last;
    size_t bytes, limit_bytes;
    uint64_t merged, lost_memory, lost_too_large, lost_samples; /* windows; samples */
};

void ring_init(struct ring *ring, size_t limit_bytes);
void ring_finish(struct ring *ring);
/* Adds a window, whose stacks are in the tables. False: it was lost, and counted. */
bool ring_add_window(struct ring *ring, struct tables *tables, const struct store_window *window);
/* Totals of one seq. */
bool ring_add_totals(struct ring *ring, struct tables *tables, const struct store_total *totals,
                     size_t count);
/* Forgets everything up to a seq. */
void ring_ack(struct ring *ring, uint64_t seq);
/* Merges and drops until the limit is kept. */
void ring_trim(struct ring *ring, struct tables *tables);
/* Rewrites all numbers for new tables, which get what the ring refers to. False when out of memory:
 * the ring and its tables are as before. */
bool ring_renumber(struct ring *ring, const struct tables *from, struct tables *to);

#endif
