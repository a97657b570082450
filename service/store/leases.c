/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/leases.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct lease {
    char group[STORE_MAX_LEASE_NAME + 1], holder[STORE_MAX_LEASE_NAME + 1];
    int64_t end_ms;
};

struct leases {
    pthread_mutex_t lock;
    struct lease items[LEASES_MAX]; /* by holder */
    size_t count;
};

struct leases *leases_create(void) {
    struct leases *leases = calloc(1, sizeof *leases);
    if (leases)
        pthread_mutex_init(&leases->lock, NULL);
    return leases;
}

void leases_destroy(struct leases *leases) {
    if (!leases)
        return;
    pthread_mutex_destroy(&leases->lock);
    free(leases);
}

/* Removes those that have ended, and the holder's own. */
static void sweep(struct leases *leases, const struct store_lease_request *wanted, int64_t now_ms) {
    size_t kept = 0;
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->items[i];
        bool is_own =
            strcmp(lease->group, wanted->group) == 0 && strcmp(lease->holder, wanted->holder) == 0;
        if (lease->end_ms > now_ms && !is_own)
            leases->items[kept++] = *lease;
    }
    leases->count = kept;
}

static void insert(struct leases *leases, const struct store_lease_request *wanted,
                   int64_t now_ms) {
    size_t at = leases->count++;
    for (; at > 0 && strcmp(leases->items[at - 1].holder, wanted->holder) > 0; at--)
        leases->items[at] = leases->items[at - 1];
    struct lease *lease = &leases->items[at];
    *lease = (struct lease){.end_ms = now_ms + (int64_t)wanted->duration_s * 1000};
    memcpy(lease->group, wanted->group, strlen(wanted->group) + 1);
    memcpy(lease->holder, wanted->holder, strlen(wanted->holder) + 1);
}

static sonde_err list(const struct leases *leases, const char *group, int64_t now_ms,
                      struct sonde_arena *arena, struct store_lease **live, size_t *count) {
    *count = 0;
    *live = sonde_arena_alloc(arena, (leases->count + 1) * sizeof **live);
    for (size_t i = 0; i < leases->count && *live; i++) {
        const struct lease *lease = &leases->items[i];
        if (strcmp(lease->group, group) != 0)
            continue;
        struct store_lease *to = &(*live)[(*count)++];
        to->holder = sonde_arena_dup(arena, lease->holder, strlen(lease->holder));
        to->left_s = (uint32_t)((lease->end_ms - now_ms + 999) / 1000);
        if (!to->holder)
            return SONDE_OUT_OF_MEMORY;
    }
    return *live ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err leases_renew(struct leases *leases, const struct store_lease_request *wanted,
                       int64_t now_ms, struct sonde_arena *arena, struct store_lease **live,
                       size_t *count, struct sonde_diag *diag) {
    pthread_mutex_lock(&leases->lock);
    sweep(leases, wanted, now_ms);
    sonde_err err = list(leases, wanted->group, now_ms, arena, live, count);
    bool is_full = *count >= STORE_MAX_HOLDERS || leases->count == LEASES_MAX;
    if (!err && wanted->duration_s && is_full)
        err = store_lease_refuse(wanted, diag);
    if (!err && wanted->duration_s) {
        insert(leases, wanted, now_ms);
        err = list(leases, wanted->group, now_ms, arena, live, count);
    }
    pthread_mutex_unlock(&leases->lock);
    return err;
}
