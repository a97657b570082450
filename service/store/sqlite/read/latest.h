/* SPDX-License-Identifier: Apache-2.0
 *
 * For events that are states: which window is the last one of a process that lives at the end of
 * the range, or of each step (STORE_STATE_S). A first scan without rows notes them, a second one
 * takes only those. One thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_READ_LATEST_H
#define SONDE_SERVICE_STORE_SQLITE_READ_LATEST_H

#include "service/store/sqlite/read/scan.h"

struct latest_item {
    uint32_t stream, process;
    int64_t step, first, begin; /* begins of the first and of the last window */
    uint64_t windows, ordinal;
};

struct latest {
    int64_t step_s; /* 0 = the whole range is one step */
    struct latest_item *items;
    size_t count, capacity;
    struct hash_index index;
};

/* Scans; latest is zeroed except for step_s. */
void latest_find(struct latest *latest, struct scan *scan);
bool latest_has(const struct latest *latest, const struct scan *scan,
                const struct chunk_window *window, const struct labelset *set);
void latest_finish(struct latest *latest);

#endif
