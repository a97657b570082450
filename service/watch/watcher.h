/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for changes in history: reads each slot of 5 minutes of each service once it is over
 * (slots.h), tests the level of its functions (level.h), explains what changed (explain.h), stores
 * it and reports it to a webhook.
 *
 * At its start, it reads the last LEVEL_SLOTS slots. If the store is away, it asks again and
 * catches up; what is older than LEVEL_SLOTS slots then is skipped and counted. After each service
 * it rests for some times as long as that took, so it takes a fifth of a CPU at most. Thread
 * safety: one thread creates, looks and destroys; the state, any thread. */
#ifndef SONDE_SERVICE_WATCH_WATCHER_H
#define SONDE_SERVICE_WATCH_WATCHER_H

#include "service/store/store.h"
#include "service/watch/webhook.h"

#define WATCHER_MAX_SERVICES 4096
#define WATCHER_MAX_STACKS   (4u << 20) /* known stacks of all services */
#define WATCHER_LATE_S       60         /* windows arrive later than they end */
#define WATCHER_PAUSE_MS     20000      /* between two looks */
#define WATCHER_REST         4

struct watcher_options {
    struct store *store;
    struct webhook *webhook; /* NULL = none; must outlive the watcher, like the store */
    unsigned rest;           /* pause after each service, in times of what it took */
    void (*log)(const char *line);
};

struct watcher_state {
    uint32_t services;
    uint64_t functions, changes, repeated, failed, skipped_slots, skipped_services;
    int64_t until_unix_s; /* 0 = nothing was looked at yet */
    char trouble[256];    /* "" = all is well */
};

struct watcher;

/* NULL when out of memory. */
struct watcher *watcher_create(const struct watcher_options *options);
/* Looks at the slots that are over and were not looked at. Errors: the store's. */
SONDE_MUST_USE sonde_err watcher_look(struct watcher *watcher, int64_t now_unix_s,
                                      struct sonde_diag *diag);
/* Starts a thread that looks again and again. log gets a line for each change, one when looking
 * begins to fail, and one when it works again. */
SONDE_MUST_USE sonde_err watcher_start(struct watcher *watcher, struct sonde_diag *diag);
void watcher_state(struct watcher *watcher, struct watcher_state *state);
/* Ends the thread. NULL is fine. */
void watcher_destroy(struct watcher *watcher);

#endif
