/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/store_threads/maintenance.h"

#include "api/base/clock.h"
#include "service/locks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct maintenance {
    struct store *store;
    uint32_t interval_s;
    void (*log)(const char *line);
    struct lock lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_ending, is_failing;
};

static void maintain(struct maintenance *maintenance) {
    struct store *store = maintenance->store;
    struct sonde_diag diag = {0};
    char line[400];
    sonde_err err = store->ops->maintain(store, time(NULL), &diag);
    if (err && !maintenance->is_failing) {
        snprintf(line, sizeof line, "the store cannot be maintained: %s",
                 sonde_diag_text(&diag, err));
        maintenance->log(line);
    } else if (!err && maintenance->is_failing) {
        maintenance->log("the store is maintained again");
    }
    maintenance->is_failing = err != SONDE_OK;
}

/* False when the thread shall end. */
static bool pause_until_next(struct maintenance *maintenance) {
    const struct timespec until = clock_wait_end(maintenance->interval_s * INT64_C(1000));
    lock_take(&maintenance->lock);
    while (!maintenance->is_ending &&
           lock_wait_until(&maintenance->lock, &maintenance->changed, &until))
        continue;
    bool goes_on = !maintenance->is_ending;
    lock_drop(&maintenance->lock);
    return goes_on;
}

static void *run(void *context) {
    struct maintenance *maintenance = context;
    do
        maintain(maintenance);
    while (pause_until_next(maintenance));
    return NULL;
}

/* With all signals blocked: the main thread waits for them. */
static int start_thread(struct maintenance *maintenance) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int os_error = pthread_create(&maintenance->thread, NULL, run, maintenance);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!os_error)
        pthread_setname_np(maintenance->thread, "sonde-maintain");
    return os_error;
}

static void destroy(struct maintenance *maintenance) {
    pthread_cond_destroy(&maintenance->changed);
    lock_finish(&maintenance->lock);
    free(maintenance);
}

sonde_err maintenance_start(struct store *store, uint32_t interval_s, void (*log)(const char *line),
                            struct maintenance **started, struct sonde_diag *diag) {
    struct maintenance *maintenance = calloc(1, sizeof *maintenance);
    if (!maintenance)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    maintenance->store = store;
    maintenance->interval_s = interval_s;
    maintenance->log = log;
    lock_init(&maintenance->lock, LOCK_MAINTENANCE);
    pthread_cond_init(&maintenance->changed, NULL);
    int os_error = start_thread(maintenance);
    if (os_error) {
        destroy(maintenance);
        return sonde_fail_os(diag, os_error, "cannot start the thread that maintains the store");
    }
    *started = maintenance;
    return SONDE_OK;
}

void maintenance_stop(struct maintenance *maintenance) {
    if (!maintenance)
        return;
    lock_take(&maintenance->lock);
    maintenance->is_ending = true;
    pthread_cond_broadcast(&maintenance->changed);
    lock_drop(&maintenance->lock);
    pthread_join(maintenance->thread, NULL);
    destroy(maintenance);
}
