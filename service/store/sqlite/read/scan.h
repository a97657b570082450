/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over what a query selects, stream by stream and in order of time. A finished hour that is
 * inside the range, and whose label sets all match, is visited as its rollup; other hours are
 * visited window by window. Windows belong to a range by their begin. Thread safety: one thread at
 * a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_READ_SCAN_H
#define SONDE_SERVICE_STORE_SQLITE_READ_SCAN_H

#include "service/store/sqlite/db/keys.h"
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/format/tally.h"
#include "service/store/sqlite/read/labelset.h"

struct scan;

struct scan_visitor {
    void *context;
    enum service_kind kind;
    bool with_rows;  /* also read the rows */
    bool any_event;  /* the query's event "" means all of them */
    bool is_partial; /* on_hour picks the entries that match, so all of them need not */
    /* A window that matches. With a selector that names a thread, each row must be asked for. */
    void (*on_window)(void *context, struct scan *scan, const struct chunk_window *window,
                      struct labelset *set);
    /* A finished hour; rows has one window if with_rows, else none. NULL = visit the windows. */
    void (*on_hour)(void *context, struct scan *scan, const struct tally *tally,
                    const struct chunk *rows);
    void (*on_stream_end)(void *context, struct scan *scan); /* may be NULL */
};

struct scan {
    struct db *db;
    const struct store_query *query;
    const struct scan_visitor *visitor;
    struct labelsets sets;
    int64_t from, until;
    uint32_t stream, service; /* the current ones */
    const char *service_name, *event;
    int64_t hour;       /* of the current window or rollup, since 1970 */
    uint64_t ordinal;   /* of the current window among those that match */
    struct chunk chunk; /* the current one */
    struct tally tally;
    /* Threads of all chunks, numbered in the order of their first use. */
    struct text_list threads;
    uint32_t *thread_map; /* from the current chunk's numbers */
    size_t map_capacity;
};

void scan_init(struct scan *scan, struct db *db, const struct store_query *query);
void scan_finish(struct scan *scan);
/* Failures are db's. May be called again, with the same threads and ordinals. */
void scan_run(struct scan *scan, const struct scan_visitor *visitor);
/* Whether this row of a window matches; thread is scan->thread_map's. */
bool scan_row_matches(struct scan *scan, struct labelset *set, uint32_t thread);

#endif
