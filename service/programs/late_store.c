/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/late_store.h"

#include "api/base/clock.h"
#include "service/locks.h"
#include "service/store/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct late {
    struct store base;
    struct store_limits limits;
    void (*log)(const char *line);
    char *name;
    char engine[16];
    struct lock lock;              /* guards what follows; not held while a store is opened */
    struct store *real, *readable; /* NULL = not open; they never change then */
    bool is_opening;
    int64_t next_ms;
    char reason[300];
};

/* Without the lock, by one thread at a time. */
static void try_to_open(struct late *late, bool has_readable) {
    struct store *real = NULL, *readable = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = store_open(late->name, &late->limits, &real, &diag);
    if (err && !has_readable && store_open_read_only(late->name, &late->limits, &readable, NULL))
        readable = NULL; /* the reason why it cannot be written says more */
    lock_take(&late->lock);
    late->real = real;
    late->readable = has_readable ? late->readable : readable;
    late->is_opening = false;
    late->next_ms = clock_ms(CLOCK_MONOTONIC) + LATE_RETRY_MS;
    if (err)
        snprintf(late->reason, sizeof late->reason, "%s", sonde_diag_text(&diag, err));
    lock_drop(&late->lock);
    if (!err)
        late->log("the history is open");
}

/* NULL: diag has the reason. */
static struct store *get(struct store *store, bool for_writing, struct sonde_diag *diag) {
    struct late *late = (struct late *)store;
    lock_take(&late->lock);
    bool is_due = !late->real && !late->is_opening && clock_ms(CLOCK_MONOTONIC) >= late->next_ms;
    bool has_readable = late->readable != NULL;
    late->is_opening = late->is_opening || is_due;
    lock_drop(&late->lock);
    if (is_due)
        try_to_open(late, has_readable);
    lock_take(&late->lock);
    struct store *found = late->real || for_writing ? late->real : late->readable;
    if (!found)
        (void)sonde_fail(diag, SONDE_UNAVAILABLE, "%s", late->reason);
    lock_drop(&late->lock);
    return found;
}

static sonde_err put(struct store *store, const struct store_batch *batch,
                     struct store_put_result *result, struct sonde_diag *diag) {
    struct store *real = get(store, true, diag);
    return real ? real->ops->put(real, batch, result, diag) : SONDE_UNAVAILABLE;
}

static sonde_err merge(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_merge *merged,
                       struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->merge(real, query, arena, merged, diag) : SONDE_UNAVAILABLE;
}

static sonde_err stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_stack **rows, size_t *found, struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->stacks(real, service, ids, count, stop, arena, rows, found, diag)
                : SONDE_UNAVAILABLE;
}

static sonde_err frames(struct store *store, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_frame **rows, size_t *found, struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->frames(real, ids, count, stop, arena, rows, found, diag)
                : SONDE_UNAVAILABLE;
}

static sonde_err unnamed(struct store *store, size_t limit, struct sonde_arena *arena,
                         struct store_frame **rows, size_t *found, struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->unnamed(real, limit, arena, rows, found, diag) : SONDE_UNAVAILABLE;
}

static sonde_err series(struct store *store, const struct store_series_query *query,
                        struct sonde_arena *arena, struct store_series_result *result,
                        struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->series(real, query, arena, result, diag) : SONDE_UNAVAILABLE;
}

static sonde_err totals(struct store *store, const struct store_query *query,
                        struct sonde_arena *arena, struct store_total_row **rows, size_t *count,
                        struct store_merge *completeness, struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->totals(real, query, arena, rows, count, completeness, diag)
                : SONDE_UNAVAILABLE;
}

static sonde_err hosts(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_host **rows, size_t *count,
                       struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->hosts(real, query, arena, rows, count, diag) : SONDE_UNAVAILABLE;
}

static sonde_err services(struct store *store, const struct store_query *query,
                          struct sonde_arena *arena, struct store_service **rows, size_t *count,
                          struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->services(real, query, arena, rows, count, diag) : SONDE_UNAVAILABLE;
}

static sonde_err labels(struct store *store, const struct store_query *query, const char *name,
                        size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                        bool *is_cut, struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->labels(real, query, name, limit, arena, texts, count, is_cut, diag)
                : SONDE_UNAVAILABLE;
}

static sonde_err lease(struct store *store, const struct store_lease_request *wanted,
                       struct sonde_arena *arena, struct store_lease **live, size_t *count,
                       struct sonde_diag *diag) {
    struct store *real = get(store, true, diag);
    return real ? real->ops->lease(real, wanted, arena, live, count, diag) : SONDE_UNAVAILABLE;
}

static sonde_err put_change(struct store *store, const struct store_change *change,
                            struct sonde_diag *diag) {
    struct store *real = get(store, true, diag);
    return real ? real->ops->put_change(real, change, diag) : SONDE_UNAVAILABLE;
}

static sonde_err changes(struct store *store, const struct store_change_query *query,
                         struct sonde_arena *arena, struct store_change **rows, size_t *count,
                         struct sonde_diag *diag) {
    struct store *real = get(store, false, diag);
    return real ? real->ops->changes(real, query, arena, rows, count, diag) : SONDE_UNAVAILABLE;
}

/* The state can always be had: its trouble is the reason. */
static sonde_err info(struct store *store, const struct store_stop *stop, struct store_info *to,
                      struct sonde_diag *diag) {
    struct late *late = (struct late *)store;
    struct sonde_diag reason = {0};
    struct store *real = get(store, true, &reason), *readable = real;
    sonde_err err = SONDE_OK;
    *to = (struct store_info){.engine = late->engine};
    if (!real)
        readable = get(store, false, NULL);
    if (readable)
        err = readable->ops->info(readable, stop, to, diag);
    if (!real)
        snprintf(to->trouble, sizeof to->trouble, "%s", reason.text);
    return err;
}

static sonde_err maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag) {
    struct store *real = get(store, true, diag);
    return real ? real->ops->maintain(real, now_unix_s, diag) : SONDE_UNAVAILABLE;
}

static void close_late(struct store *store) {
    struct late *late = (struct late *)store;
    store_close(late->readable);
    store_close(late->real);
    lock_finish(&late->lock);
    free(late->name);
    free(late);
}

struct store *late_store_create(const char *name, const struct store_limits *limits,
                                const char *reason, void (*log)(const char *line)) {
    static const struct store_ops ops = {
        .put = put,
        .merge = merge,
        .stacks = stacks,
        .frames = frames,
        .unnamed = unnamed,
        .series = series,
        .totals = totals,
        .hosts = hosts,
        .services = services,
        .labels = labels,
        .lease = lease,
        .put_change = put_change,
        .changes = changes,
        .info = info,
        .maintain = maintain,
        .close = close_late,
    };
    struct late *late = calloc(1, sizeof *late);
    char line[400];
    if (!late || !(late->name = strdup(name))) {
        free(late);
        return NULL;
    }
    late->base.ops = &ops;
    late->limits = limits ? *limits : (struct store_limits){0};
    late->log = log;
    snprintf(late->engine, sizeof late->engine, "%.*s", (int)strcspn(name, ":"), name);
    snprintf(late->reason, sizeof late->reason, "%s", reason);
    lock_init(&late->lock, LOCK_STORE_LATE);
    snprintf(line, sizeof line, "the history cannot be opened, trying again: %s", reason);
    log(line);
    return &late->base;
}
