/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/fetcher.h"

#include "api/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct fetcher {
    struct source_spec spec;
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool is_stopping; /* written with the lock */
    bool is_done, is_abandoned, has_result;
    struct host_list *list;
    struct sonde_diag diag;
};

static void destroy(struct fetcher *fetcher) {
    host_list_destroy(fetcher->list);
    pthread_mutex_destroy(&fetcher->lock);
    pthread_cond_destroy(&fetcher->changed);
    free(fetcher);
}

static sonde_err read_once(struct fetcher *fetcher, struct host_list **list,
                           struct sonde_diag *diag) {
    return fetcher->spec.kind == SOURCE_DNS
               ? source_read_dns(&fetcher->spec, list, diag)
               : source_read_http(&fetcher->spec, &fetcher->is_stopping, list, diag);
}

/* With the lock. */
static void publish(struct fetcher *fetcher, struct host_list *list,
                    const struct sonde_diag *diag) {
    uint64_t one = 1;
    host_list_destroy(fetcher->list);
    fetcher->list = list;
    fetcher->diag = *diag;
    fetcher->has_result = true;
    pthread_cond_broadcast(&fetcher->changed);
    (void)!write(fetcher->wake_fd, &one, sizeof one);
}

/* With the lock. */
static void pause_for(struct fetcher *fetcher, int seconds) {
    const struct timespec until = clock_wait_end(seconds * INT64_C(1000));
    while (!fetcher->is_stopping &&
           pthread_cond_clockwait(&fetcher->changed, &fetcher->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
}

static void *run(void *context) {
    struct fetcher *fetcher = context;
    pthread_mutex_lock(&fetcher->lock);
    while (!fetcher->is_stopping) {
        struct host_list *list;
        struct sonde_diag diag = {0};
        pthread_mutex_unlock(&fetcher->lock);
        sonde_err err = read_once(fetcher, &list, &diag);
        pthread_mutex_lock(&fetcher->lock);
        if (fetcher->is_stopping)
            host_list_destroy(list);
        else
            publish(fetcher, list, &diag);
        pause_for(fetcher, err ? FETCHER_RETRY_S : FETCHER_INTERVAL_S);
    }
    bool is_abandoned = fetcher->is_abandoned;
    fetcher->is_done = true;
    pthread_cond_broadcast(&fetcher->changed);
    pthread_mutex_unlock(&fetcher->lock);
    if (is_abandoned)
        destroy(fetcher);
    return NULL;
}

sonde_err fetcher_start(const struct source_spec *spec, int wake_fd, struct fetcher **fetcher,
                        struct sonde_diag *diag) {
    *fetcher = calloc(1, sizeof **fetcher);
    if (!*fetcher)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for %.200s", spec->name);
    (*fetcher)->spec = *spec;
    (*fetcher)->wake_fd = wake_fd;
    pthread_mutex_init(&(*fetcher)->lock, NULL);
    pthread_cond_init(&(*fetcher)->changed, NULL);
    int failure = pthread_create(&(*fetcher)->thread, NULL, run, *fetcher);
    if (!failure)
        return SONDE_OK;
    destroy(*fetcher);
    *fetcher = NULL;
    return sonde_fail_os(diag, failure, "cannot start a thread for %.200s", spec->name);
}

void fetcher_wait(struct fetcher *fetcher, const struct timespec *until) {
    pthread_mutex_lock(&fetcher->lock);
    while (!fetcher->has_result &&
           pthread_cond_clockwait(&fetcher->changed, &fetcher->lock, CLOCK_MONOTONIC, until) == 0)
        ;
    pthread_mutex_unlock(&fetcher->lock);
}

bool fetcher_take(struct fetcher *fetcher, struct host_list **list, struct sonde_diag *diag) {
    pthread_mutex_lock(&fetcher->lock);
    bool has_result = fetcher->has_result;
    *list = fetcher->list;
    *diag = fetcher->diag;
    fetcher->list = NULL;
    fetcher->has_result = false;
    pthread_mutex_unlock(&fetcher->lock);
    return has_result;
}

void fetcher_stop(struct fetcher *fetcher) {
    if (!fetcher)
        return;
    const struct timespec until = clock_wait_end(FETCHER_STOP_S * 1000);
    pthread_mutex_lock(&fetcher->lock);
    fetcher->is_stopping = true;
    pthread_cond_broadcast(&fetcher->changed);
    while (!fetcher->is_done &&
           pthread_cond_clockwait(&fetcher->changed, &fetcher->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    bool is_done = fetcher->is_done;
    fetcher->is_abandoned = !is_done;
    if (!is_done)
        pthread_detach(fetcher->thread);
    pthread_mutex_unlock(&fetcher->lock);
    if (is_done) {
        pthread_join(fetcher->thread, NULL);
        destroy(fetcher);
    }
}
