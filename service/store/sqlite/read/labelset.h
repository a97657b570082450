/* SPDX-License-Identifier: Apache-2.0
 *
 * Label sets: who was recorded. A set is the process (host, instance, pid, start), the clock and
 * the labels, and is stored once. A query reads each set once and remembers whether its selector
 * matches. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_READ_LABELSET_H
#define SONDE_SERVICE_STORE_SQLITE_READ_LABELSET_H

#include "api/hash_index.h"
#include "service/store/selector/selector.h"
#include "service/store/sqlite/db/db.h"
#include "service/store/store.h"

struct labelset {
    uint32_t number;
    uint32_t process; /* equal for all sets of one process */
    const char *host, *instance, *clock;
    char pid[12];
    int64_t start_unix_ns;
    struct store_label *labels;
    uint32_t label_count;
    uint32_t stream;         /* the memo below is for this one */
    uint8_t matches;         /* enum labelset_match */
    uint8_t *thread_matches; /* the same by the query's thread; NULL = none are known */
    uint32_t thread_capacity;
};

/* The sets that a query has read. */
struct labelsets {
    struct db *db;
    const struct selector *selector;
    bool names_thread;
    struct labelset **sets;
    size_t count, capacity;
    struct hash_index index, processes;
    struct sonde_arena arena;
    /* What the selector is asked about. */
    uint32_t stream;
    const char *service, *event, *thread;
    const struct labelset *current;
};

/* Appends the set of a window in its canonical form. */
void labelset_encode(const struct store_window *window, struct sonde_buf *buf);

void labelsets_init(struct labelsets *sets, struct db *db, const struct selector *selector);
void labelsets_finish(struct labelsets *sets);
/* The stream whose windows are asked about next. */
void labelsets_set_stream(struct labelsets *sets, uint32_t stream, const char *service,
                          const char *event);
/* NULL after a failure of db. Valid until labelsets_finish. */
struct labelset *labelsets_get(struct labelsets *sets, uint32_t number);
/* Whether the selector matches without a thread, or with this one, whose number the caller counts
 * from 0. */
bool labelsets_match(struct labelsets *sets, struct labelset *set);
bool labelsets_match_thread(struct labelsets *sets, struct labelset *set, uint32_t thread,
                            const char *name);
/* The value of a name as selectors see it; "" if there is none. */
const char *labelset_value(const struct labelsets *sets, const struct labelset *set,
                           const char *name);

#endif
