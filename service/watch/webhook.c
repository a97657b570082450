/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/webhook.h"

#include "api/base/clock.h"
#include "service/export/transport.h"
#include "service/locks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const webhook_loss_names[] = {"queue_full", "refused", "given_up", "shutdown"};

struct webhook {
    struct transport *transport;
    uint32_t retry_ms, deadline_ms;
    void (*log)(const char *line);
    pthread_t thread;
    bool is_started;
    struct lock lock; /* the rest */
    pthread_cond_t changed;
    struct sonde_buf queue[WEBHOOK_QUEUE]; /* a ring */
    size_t first, count;
    bool is_ending;
    struct webhook_state state;
    bool is_reported[WEBHOOK_LOSSES];
};

/* ---- Losses ---- */

/* With the lock. Each cause is logged once. */
static void lose(struct webhook *webhook, enum webhook_loss cause, uint64_t changes,
                 const char *why) {
    char line[400];
    webhook->state.lost[cause] += changes;
    if (changes == 0 || webhook->is_reported[cause])
        return;
    webhook->is_reported[cause] = true;
    snprintf(line, sizeof line, "--watch-webhook: a change was not sent to %.120s: %s%s%.180s",
             webhook->state.receiver, webhook_loss_names[cause], why[0] ? ": " : "", why);
    webhook->log(line);
}

void webhook_add(struct webhook *webhook, struct sonde_slice json) {
    lock_take(&webhook->lock);
    if (webhook->count == WEBHOOK_QUEUE) {
        lose(webhook, WEBHOOK_QUEUE_FULL, 1, "");
    } else {
        struct sonde_buf *item = &webhook->queue[(webhook->first + webhook->count) % WEBHOOK_QUEUE];
        sonde_buf_append(item, json.data, json.len);
        webhook->count++;
    }
    pthread_cond_signal(&webhook->changed);
    lock_drop(&webhook->lock);
}

void webhook_state(struct webhook *webhook, struct webhook_state *state) {
    lock_take(&webhook->lock);
    *state = webhook->state;
    lock_drop(&webhook->lock);
}

/* ---- Sending ---- */

static bool may_retry(const struct export_answer *answer) {
    return answer->outcome == EXPORT_RETRY || answer->status >= 500;
}

/* False when the thread shall end. */
static bool pause_for(struct webhook *webhook, uint32_t ms) {
    const struct timespec until = clock_wait_end(ms);
    lock_take(&webhook->lock);
    webhook->state.retries++;
    while (!webhook->is_ending && lock_wait_until(&webhook->lock, &webhook->changed, &until))
        continue;
    bool goes_on = !webhook->is_ending;
    lock_drop(&webhook->lock);
    return goes_on;
}

static void note_trouble(struct webhook *webhook, const char *text) {
    lock_take(&webhook->lock);
    snprintf(webhook->state.trouble, sizeof webhook->state.trouble, "%s", text);
    lock_drop(&webhook->lock);
}

/* With the lock afterwards, as before. */
static void send_one(struct webhook *webhook, struct sonde_slice json) {
    struct export_answer answer = {.outcome = EXPORT_RETRY};
    uint32_t pause_ms = webhook->retry_ms;
    bool goes_on = true;
    int tries = 0;
    lock_drop(&webhook->lock);
    while (goes_on) {
        webhook->transport->ops->send(webhook->transport, json, webhook->deadline_ms, &answer);
        note_trouble(webhook, answer.outcome == EXPORT_DONE ? "" : answer.text);
        if (answer.outcome == EXPORT_DONE || !may_retry(&answer) || ++tries == WEBHOOK_TRIES)
            break;
        goes_on = pause_for(webhook, answer.wait_ms > pause_ms ? answer.wait_ms : pause_ms);
        pause_ms = pause_ms > WEBHOOK_MAX_RETRY_MS / 2 ? WEBHOOK_MAX_RETRY_MS : 2 * pause_ms;
    }
    lock_take(&webhook->lock);
    if (answer.outcome == EXPORT_DONE)
        webhook->state.sent++;
    else if (webhook->is_ending)
        lose(webhook, WEBHOOK_SHUTDOWN, 1, answer.text);
    else
        lose(webhook, may_retry(&answer) ? WEBHOOK_GIVEN_UP : WEBHOOK_REFUSED, 1, answer.text);
}

static void *run(void *context) {
    struct webhook *webhook = context;
    lock_take(&webhook->lock);
    while (!webhook->is_ending) {
        if (webhook->count == 0) {
            lock_wait(&webhook->lock, &webhook->changed);
            continue;
        }
        struct sonde_buf item = webhook->queue[webhook->first];
        webhook->queue[webhook->first] = (struct sonde_buf){0};
        webhook->first = (webhook->first + 1) % WEBHOOK_QUEUE;
        webhook->count--;
        send_one(webhook, sonde_buf_slice(&item));
        sonde_buf_finish(&item);
    }
    lose(webhook, WEBHOOK_SHUTDOWN, webhook->count, "");
    lock_drop(&webhook->lock);
    return NULL;
}

/* ---- Life ---- */

/* With all signals blocked: the main thread waits for them. */
static int start_thread(struct webhook *webhook) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int os_error = pthread_create(&webhook->thread, NULL, run, webhook);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    webhook->is_started = !os_error;
    if (!os_error)
        pthread_setname_np(webhook->thread, "sonde-webhook");
    return os_error;
}

static sonde_err read_url(const char *url, struct export_address *address,
                          struct sonde_diag *diag) {
    return address_read("--watch-webhook", url, EXPORT_PATH_GIVEN, address, diag);
}

sonde_err webhook_check(const char *url, struct sonde_diag *diag) {
    struct export_address address;
    return read_url(url, &address, diag);
}

sonde_err webhook_create(const struct webhook_options *options, struct webhook **created,
                         struct sonde_diag *diag) {
    static const struct export_headers no_headers;
    struct export_address address;
    *created = NULL;
    sonde_err err = read_url(options->url, &address, diag);
    if (err)
        return err;
    struct webhook *webhook = calloc(1, sizeof *webhook);
    if (!webhook)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    lock_init(&webhook->lock, LOCK_WEBHOOK);
    pthread_cond_init(&webhook->changed, NULL);
    webhook->log = options->log;
    webhook->retry_ms = options->retry_ms ? options->retry_ms : WEBHOOK_RETRY_MS;
    webhook->deadline_ms = options->deadline_ms ? options->deadline_ms : WEBHOOK_DEADLINE_MS;
    snprintf(webhook->state.receiver, sizeof webhook->state.receiver, "%s", address.shown);
    const struct transport_options transport = {.address = &address,
                                                .headers = &no_headers,
                                                .content_type = "application/json",
                                                .log = options->log};
    err = http_transport_create(&transport, &webhook->transport, diag);
    int os_error = err ? 0 : start_thread(webhook);
    if (os_error)
        err = sonde_fail_os(diag, os_error, "cannot start the thread of --watch-webhook");
    if (err)
        webhook_destroy(webhook);
    else
        *created = webhook;
    return err;
}

void webhook_destroy(struct webhook *webhook) {
    if (!webhook)
        return;
    lock_take(&webhook->lock);
    webhook->is_ending = true;
    pthread_cond_broadcast(&webhook->changed);
    lock_drop(&webhook->lock);
    if (webhook->transport)
        webhook->transport->ops->cancel(webhook->transport);
    if (webhook->is_started)
        pthread_join(webhook->thread, NULL);
    if (webhook->transport)
        webhook->transport->ops->destroy(webhook->transport);
    for (size_t i = 0; i < WEBHOOK_QUEUE; i++)
        sonde_buf_finish(&webhook->queue[i]);
    pthread_cond_destroy(&webhook->changed);
    lock_finish(&webhook->lock);
    free(webhook);
}
