/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the fake store share. Callers hold the lock. */
#ifndef SONDE_TESTS_UNIT_STORE_FAKE_STORE_PARTS_H
#define SONDE_TESTS_UNIT_STORE_FAKE_STORE_PARTS_H

#include "service/store/leases.h"
#include "service/store/store.h"

#include <pthread.h>

struct fake_store {
    struct store base;
    pthread_mutex_t lock;
    struct sonde_arena arena; /* everything that was written */
    struct store_window *windows;
    struct store_stack *stacks;
    struct store_frame *frames;
    struct store_total *totals;
    struct store_change *changes;
    size_t window_count, stack_count, frame_count, total_count, change_count;
    struct leases *leases;
    _Atomic sonde_err fail_next;
};

/* For arrays of any type: room for one more item, zeroed. */
void *fake_grow(void *items, size_t count, size_t item_size);
/* The arena's memory, never NULL. */
void *fake_alloc(struct sonde_arena *arena, size_t size);
const char *fake_dup(struct sonde_arena *arena, const char *text);
/* Whether the window matches, with rows of this thread (NULL = any). For states: is the last one of
 * its process in the range. */
bool fake_matches(const struct fake_store *fake, const struct store_window *window,
                  const struct store_query *query, const char *thread);
/* "" if the window has no such label. */
const char *fake_label(const struct store_window *window, const char *name, const char *thread);

sonde_err fake_merge(struct fake_store *, const struct store_query *, struct sonde_arena *,
                     struct store_merge *);
sonde_err fake_series(struct fake_store *, const struct store_series_query *, struct sonde_arena *,
                      struct store_series_result *);
sonde_err fake_totals(struct fake_store *, const struct store_query *, struct sonde_arena *,
                      struct store_total_row **, size_t *, struct store_merge *,
                      struct sonde_diag *);
sonde_err fake_hosts(struct fake_store *, const struct store_query *, struct sonde_arena *,
                     struct store_host **, size_t *);
sonde_err fake_services(struct fake_store *, const struct store_query *, struct sonde_arena *,
                        struct store_service **, size_t *);
sonde_err fake_labels(struct fake_store *, const struct store_query *, const char *name,
                      size_t limit, struct sonde_arena *, const char ***, size_t *, bool *);

#endif
