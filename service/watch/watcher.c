/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/watcher.h"

#include "api/base/array.h"
#include "api/base/clock.h"
#include "service/locks.h"
#include "service/watch/report.h"
#include "service/watch/slots.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watcher {
    struct watcher_options options;
    struct store_stop stop;
    struct slots **services; /* sorted by name */
    uint32_t service_count, service_capacity;
    int64_t next; /* number of the slot that is looked at next; SLOTS_UNKNOWN_NUMBER = none yet */
    uint64_t stacks; /* known ones of all services */
    bool is_failing, is_started;
    pthread_t thread;
    struct lock lock; /* the rest */
    pthread_cond_t changed;
    bool is_ending;
    struct watcher_state state;
};

/* ---- Services ---- */

/* Where the service is, or would be. */
static uint32_t place_of(const struct watcher *watcher, const char *name, bool *is_there) {
    uint32_t low = 0, high = watcher->service_count;
    *is_there = false;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = strcmp(watcher->services[middle]->service, name);
        *is_there = *is_there || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL when out of memory. */
static struct slots *service_of(struct watcher *watcher, const char *name) {
    bool is_there;
    uint32_t place = place_of(watcher, name, &is_there), count = watcher->service_count;
    if (is_there)
        return watcher->services[place];
    struct slots *slots = slots_create(name);
    if (!slots || !array_room(&watcher->services, &watcher->service_capacity, count, 1)) {
        slots_destroy(slots);
        return NULL;
    }
    memmove(&watcher->services[place + 1], &watcher->services[place],
            (count - place) * sizeof(struct slots *));
    watcher->services[place] = slots;
    watcher->service_count++;
    return slots;
}

/* Services that were not seen for as long as is looked back. */
static void forget_services(struct watcher *watcher, int64_t number) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < watcher->service_count; i++) {
        struct slots *slots = watcher->services[i];
        if (slots->last + LEVEL_SLOTS > number) {
            watcher->services[kept++] = slots;
            continue;
        }
        watcher->stacks -= slots->stack_count;
        slots_destroy(slots);
    }
    watcher->service_count = kept;
}

/* ---- Slots ---- */

static void count(struct watcher *watcher, uint64_t *counter, uint64_t more) {
    lock_take(&watcher->lock);
    *counter += more;
    lock_drop(&watcher->lock);
}

static sonde_err find_change(struct watcher *watcher, const struct slots *slots, int64_t now_unix_s,
                             struct sonde_diag *diag) {
    struct level_result result;
    struct report report = {.store = watcher->options.store,
                            .webhook = watcher->options.webhook,
                            .log = watcher->options.log,
                            .stop = &watcher->stop,
                            .slots = slots,
                            .result = &result,
                            .now_unix_s = now_unix_s};
    bool is_repeated = false;
    sonde_err err = slots_find(slots, &result);
    if (err || result.count == 0)
        return err;
    err = report_change(&report, &is_repeated, diag);
    count(watcher,
          err           ? &watcher->state.failed
          : is_repeated ? &watcher->state.repeated
                        : &watcher->state.changes,
          1);
    return err;
}

/* Ends early when the watcher ends. */
static void rest(struct watcher *watcher, int64_t took_ns) {
    const struct timespec until =
        clock_timespec(clock_ns(CLOCK_MONOTONIC) + took_ns * (int64_t)watcher->options.rest);
    lock_take(&watcher->lock);
    while (watcher->options.rest && !watcher->is_ending &&
           lock_wait_until(&watcher->lock, &watcher->changed, &until))
        continue;
    lock_drop(&watcher->lock);
}

/* Whether another service may succeed. */
static bool is_of_service(sonde_err err) {
    return err == SONDE_TOO_LARGE || err == SONDE_CORRUPT || err == SONDE_OUT_OF_MEMORY;
}

static sonde_err look_at_service(struct watcher *watcher, const char *name, int64_t number,
                                 int64_t now_unix_s, struct sonde_diag *diag) {
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    struct slots *slots = service_of(watcher, name);
    if (!slots)
        return SONDE_OUT_OF_MEMORY;
    if (slots->last != SLOTS_UNKNOWN_NUMBER && slots->last >= number)
        return SONDE_OK;
    watcher->stacks -= slots->stack_count;
    sonde_err err = slots_read(slots, watcher->options.store, number, &watcher->stop, diag);
    if (!err)
        err = find_change(watcher, slots, now_unix_s, diag);
    if (watcher->stacks + slots->stack_count > WATCHER_MAX_STACKS)
        slots_forget_stacks(slots);
    watcher->stacks += slots->stack_count;
    rest(watcher, clock_ns(CLOCK_MONOTONIC) - start_ns);
    return err;
}

static void set_state(struct watcher *watcher, int64_t number, uint64_t skipped_services) {
    uint64_t functions = 0;
    for (uint32_t i = 0; i < watcher->service_count; i++)
        functions += watcher->services[i]->series_count;
    lock_take(&watcher->lock);
    watcher->state.services = watcher->service_count;
    watcher->state.functions = functions;
    watcher->state.skipped_services = skipped_services;
    watcher->state.until_unix_s = (number + 1) * LEVEL_SLOT_S;
    lock_drop(&watcher->lock);
}

static sonde_err look_at_slot(struct watcher *watcher, int64_t number, int64_t now_unix_s,
                              struct sonde_diag *diag) {
    struct store *store = watcher->options.store;
    const struct store_query query = {.service = "",
                                      .event = SLOTS_EVENT,
                                      .from_unix_s = number * LEVEL_SLOT_S,
                                      .until_unix_s = (number + 1) * LEVEL_SLOT_S,
                                      .stop = &watcher->stop};
    struct sonde_arena arena = {0};
    struct store_service *services = NULL;
    size_t service_count = 0;
    sonde_err err = store->ops->services(store, &query, &arena, &services, &service_count, diag);
    for (size_t i = 0; i < service_count && i < WATCHER_MAX_SERVICES && !err; i++) {
        err = store_stop_check(&watcher->stop, diag);
        if (!err)
            err = look_at_service(watcher, services[i].name, number, now_unix_s, diag);
        if (!err || !is_of_service(err))
            continue;
        count(watcher, &watcher->state.failed, 1);
        err = SONDE_OK;
    }
    if (!err) {
        forget_services(watcher, number);
        set_state(watcher, number,
                  service_count > WATCHER_MAX_SERVICES ? service_count - WATCHER_MAX_SERVICES : 0);
    }
    sonde_arena_finish(&arena);
    return err;
}

/* Slots that are older than what is looked back at are of no use any more. */
static void skip_slots(struct watcher *watcher, int64_t last) {
    char line[160];
    int64_t first = last - LEVEL_SLOTS + 1, skipped = first - watcher->next;
    if (watcher->next == SLOTS_UNKNOWN_NUMBER)
        watcher->next = first;
    if (watcher->next >= first)
        return;
    snprintf(line, sizeof line, "changes between %lld and %lld (Unix time) were not looked for",
             (long long)watcher->next * LEVEL_SLOT_S, (long long)first * LEVEL_SLOT_S);
    watcher->options.log(line);
    watcher->next = first;
    count(watcher, &watcher->state.skipped_slots, (uint64_t)skipped);
}

sonde_err watcher_look(struct watcher *watcher, int64_t now_unix_s, struct sonde_diag *diag) {
    int64_t last = (now_unix_s - WATCHER_LATE_S) / LEVEL_SLOT_S - 1;
    sonde_err err = SONDE_OK;
    skip_slots(watcher, last);
    while (watcher->next <= last && !err) {
        err = look_at_slot(watcher, watcher->next, now_unix_s, diag);
        watcher->next += !err;
    }
    lock_take(&watcher->lock);
    snprintf(watcher->state.trouble, sizeof watcher->state.trouble, "%s",
             err ? sonde_diag_text(diag, err) : "");
    lock_drop(&watcher->lock);
    return err;
}

/* ---- The thread ---- */

static void look(struct watcher *watcher) {
    struct sonde_diag diag = {0};
    char line[400];
    sonde_err err = watcher_look(watcher, time(NULL), &diag);
    if (err && !watcher->is_failing && err != SONDE_CANCELLED) {
        snprintf(line, sizeof line, "changes cannot be looked for: %s",
                 sonde_diag_text(&diag, err));
        watcher->options.log(line);
    } else if (!err && watcher->is_failing) {
        watcher->options.log("changes are looked for again");
    }
    watcher->is_failing = err != SONDE_OK;
}

/* False when the thread shall end. */
static bool pause_until_next(struct watcher *watcher) {
    const struct timespec until = clock_wait_end(WATCHER_PAUSE_MS);
    lock_take(&watcher->lock);
    while (!watcher->is_ending && lock_wait_until(&watcher->lock, &watcher->changed, &until))
        continue;
    bool goes_on = !watcher->is_ending;
    lock_drop(&watcher->lock);
    return goes_on;
}

static void *run(void *context) {
    struct watcher *watcher = context;
    do
        look(watcher);
    while (pause_until_next(watcher));
    return NULL;
}

/* With all signals blocked: the main thread waits for them. */
sonde_err watcher_start(struct watcher *watcher, struct sonde_diag *diag) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int os_error = pthread_create(&watcher->thread, NULL, run, watcher);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (os_error)
        return sonde_fail_os(diag, os_error, "cannot start the thread that looks for changes");
    watcher->is_started = true;
    pthread_setname_np(watcher->thread, "sonde-watch");
    return SONDE_OK;
}

/* ---- Life ---- */

struct watcher *watcher_create(const struct watcher_options *options) {
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher)
        return NULL;
    watcher->options = *options;
    watcher->next = SLOTS_UNKNOWN_NUMBER;
    lock_init(&watcher->lock, LOCK_WATCHER);
    pthread_cond_init(&watcher->changed, NULL);
    return watcher;
}

void watcher_state(struct watcher *watcher, struct watcher_state *state) {
    lock_take(&watcher->lock);
    *state = watcher->state;
    lock_drop(&watcher->lock);
}

void watcher_destroy(struct watcher *watcher) {
    if (!watcher)
        return;
    lock_take(&watcher->lock);
    watcher->is_ending = true;
    pthread_cond_broadcast(&watcher->changed);
    lock_drop(&watcher->lock);
    atomic_store(&watcher->stop.is_stopped, true);
    if (watcher->is_started)
        pthread_join(watcher->thread, NULL);
    for (uint32_t i = 0; i < watcher->service_count; i++)
        slots_destroy(watcher->services[i]);
    free(watcher->services);
    pthread_cond_destroy(&watcher->changed);
    lock_finish(&watcher->lock);
    free(watcher);
}
