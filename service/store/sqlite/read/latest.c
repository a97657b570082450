/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/read/latest.h"

#include "api/base/array.h"

#include <stdlib.h>

static int64_t step_of(const struct latest *latest, const struct chunk_window *window) {
    return latest->step_s ? window->begin_unix_s / latest->step_s : 0;
}

static uint32_t hash_of(const struct latest *latest, uint32_t stream, uint32_t process,
                        int64_t step) {
    return hash_index_words(&latest->index, (uint64_t)stream << 32 | process, (uint64_t)step);
}

static struct latest_item *find(const struct latest *latest, uint32_t stream, uint32_t process,
                                int64_t step) {
    struct hash_probe probe = hash_probe(hash_of(latest, stream, process, step));
    uint32_t at;
    while ((at = hash_index_next(&latest->index, &probe)) != HASH_INDEX_NONE) {
        struct latest_item *item = &latest->items[at];
        if (item->process == process && item->step == step && item->stream == stream)
            return item;
    }
    return NULL;
}

static void on_window(void *context, struct scan *scan, const struct chunk_window *window,
                      struct labelset *set) {
    struct latest *latest = context;
    int64_t step = step_of(latest, window);
    struct latest_item *item = find(latest, scan->stream, set->process, step);
    if (!item) {
        if (!array_room(&latest->items, &latest->capacity, latest->count, 1) ||
            !hash_index_add(&latest->index, hash_of(latest, scan->stream, set->process, step),
                            (uint32_t)latest->count)) {
            db_out_of_memory(scan->db);
            return;
        }
        item = &latest->items[latest->count++];
        *item = (struct latest_item){.stream = scan->stream,
                                     .process = set->process,
                                     .step = step,
                                     .first = INT64_MAX,
                                     .begin = INT64_MIN};
    }
    item->windows++;
    if (window->begin_unix_s < item->first)
        item->first = window->begin_unix_s;
    if (window->begin_unix_s >= item->begin) {
        item->begin = window->begin_unix_s;
        item->ordinal = scan->ordinal;
    }
}

static int by_step(const void *left, const void *right) {
    const struct latest_item *a = *(struct latest_item *const *)left;
    const struct latest_item *b = *(struct latest_item *const *)right;
    return (a->step > b->step) - (a->step < b->step);
}

/* Begins of windows of one step, from which on a process counts as alive. */
static int64_t alive_since(struct latest_item *const *items, size_t count) {
    int64_t newest = INT64_MIN, pause_s = STORE_STATE_S;
    for (size_t i = 0; i < count; i++) {
        const struct latest_item *item = items[i];
        int64_t mean_s =
            item->windows > 1 ? (item->begin - item->first) / (int64_t)(item->windows - 1) : 0;
        newest = item->begin > newest ? item->begin : newest;
        pause_s = mean_s > pause_s ? mean_s : pause_s;
    }
    return newest - 2 * pause_s;
}

/* No window of such a process is its last one. */
static void drop_ended(struct latest *latest, struct db *db) {
    struct latest_item **items = malloc((latest->count + 1) * sizeof *items);
    if (!items) {
        db_out_of_memory(db);
        return;
    }
    for (size_t i = 0; i < latest->count; i++)
        items[i] = &latest->items[i];
    if (latest->count > 1)
        qsort(items, latest->count, sizeof *items, by_step);
    for (size_t first = 0, end; first < latest->count; first = end) {
        for (end = first + 1; end < latest->count && items[end]->step == items[first]->step; end++)
            continue;
        int64_t since = alive_since(&items[first], end - first);
        for (size_t i = first; i < end; i++)
            if (items[i]->begin < since)
                items[i]->ordinal = UINT64_MAX;
    }
    free(items);
}

void latest_find(struct latest *latest, struct scan *scan) {
    hash_index_init(&latest->index);
    scan_run(scan, &(struct scan_visitor){.context = latest, .on_window = on_window});
    drop_ended(latest, scan->db);
}

bool latest_has(const struct latest *latest, const struct scan *scan,
                const struct chunk_window *window, const struct labelset *set) {
    const struct latest_item *item =
        find(latest, scan->stream, set->process, step_of(latest, window));
    return item && item->ordinal == scan->ordinal;
}

void latest_finish(struct latest *latest) {
    free(latest->items);
    hash_index_finish(&latest->index);
}
