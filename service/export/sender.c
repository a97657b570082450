/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/sender.h"

#include "api/base/clock.h"
#include "service/locks.h"
#include "service/recording/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_MS 1000000ll

const char *const sender_loss_names[LOSS_CAUSES] = {
    [LOSS_QUEUE_FULL] = "queue_full", [LOSS_REFUSED] = "refused",     [LOSS_REJECTED] = "rejected",
    [LOSS_TIMEOUT] = "timeout",       [LOSS_TOO_LARGE] = "too_large", [LOSS_MEMORY] = "memory",
    [LOSS_SHUTDOWN] = "shutdown",
};

static const char *const loss_sentences[LOSS_CAUSES] = {
    [LOSS_QUEUE_FULL] = "the queue is full, because the receiver is away or too slow",
    [LOSS_REFUSED] = "the receiver refuses them",
    [LOSS_REJECTED] = "the receiver rejects some",
    [LOSS_TIMEOUT] = "the receiver does not answer in time",
    [LOSS_TOO_LARGE] = "the receiver does not accept requests of that size",
    [LOSS_MEMORY] = "out of memory",
    [LOSS_SHUTDOWN] = "the service ends",
};

struct sender {
    struct sender_options options;
    char shown[320], host[256];
    struct queue *queue;
    pthread_t thread;
    bool has_thread;

    struct lock lock; /* guards what follows */
    pthread_cond_t changed;
    bool is_stopping, is_cancelled, is_done;
    bool has_logged[LOSS_CAUSES];
    uint64_t sent, retries, lost[LOSS_CAUSES];
    char trouble[256];
};

/* With the lock held: waits for a change until CLOCK_MONOTONIC is until_ns; false if it is. */
static bool wait_until(struct sender *sender, int64_t until_ns) {
    const struct timespec until = clock_timespec(until_ns);
    return lock_wait_until(&sender->lock, &sender->changed, &until);
}

/* ---- Counters and messages ---- */

static void log_line(struct sender *sender, const char *what, const char *text) {
    char line[720];
    snprintf(line, sizeof line, "%s to %s: %s%.300s", sender->options.protocol->name, sender->shown,
             what, text);
    if (sender->options.log)
        sender->options.log(line);
}

/* text: what the receiver said; may be "". */
static void lose(struct sender *sender, enum sender_loss cause, uint64_t count, const char *text) {
    char line[512];
    lock_take(&sender->lock);
    bool is_first = !sender->has_logged[cause];
    sender->has_logged[cause] = true;
    sender->lost[cause] += count;
    lock_drop(&sender->lock);
    snprintf(line, sizeof line, "%s%s%.200s%s", loss_sentences[cause], *text ? " (" : "", text,
             *text ? ")" : "");
    if (is_first)
        log_line(sender, "profiles are lost: ", line);
}

/* "" = there is none any more. */
static void set_trouble(struct sender *sender, const char *text) {
    lock_take(&sender->lock);
    bool was_fine = !sender->trouble[0];
    snprintf(sender->trouble, sizeof sender->trouble, "%s", text);
    lock_drop(&sender->lock);
    if (was_fine && *text)
        log_line(sender, "profiles wait in memory: ", text);
    else if (!was_fine && !*text)
        log_line(sender, "profiles are sent again", "");
}

/* ---- Requests ---- */

/* Between half of it and all of it, so that many machines do not return at the same moment. */
static uint32_t randomised(uint32_t ms) {
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    return ms / 2 + random % (ms / 2 + 1);
}

/* False if sending is cancelled. */
static bool wait_ms(struct sender *sender, uint32_t ms) {
    int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + ms * NS_PER_MS;
    lock_take(&sender->lock);
    sender->retries++;
    while (!sender->is_cancelled && wait_until(sender, until_ns)) {
    }
    bool goes_on = !sender->is_cancelled;
    lock_drop(&sender->lock);
    return goes_on;
}

static void count_sent(struct sender *sender, const struct export_answer *answer) {
    lock_take(&sender->lock);
    sender->sent++;
    lock_drop(&sender->lock);
    set_trouble(sender, "");
    if (answer->rejected)
        lose(sender, LOSS_REJECTED, answer->rejected, answer->text);
}

/* Sends the request until there is an outcome; false if the receiver wants smaller ones. */
static bool deliver(struct sender *sender, struct sonde_slice request) {
    const struct sender_options *options = &sender->options;
    struct export_answer answer;
    uint32_t pause_ms = options->retry_ms;
    for (int timeouts = 0;;) {
        options->transport->ops->send(options->transport, request, options->deadline_ms, &answer);
        if (answer.outcome != EXPORT_RETRY)
            break;
        timeouts += answer.is_timeout;
        if (timeouts == SENDER_MAX_TIMEOUTS) {
            lose(sender, LOSS_TIMEOUT, 1, answer.text);
            return true;
        }
        set_trouble(sender, answer.text[0] ? answer.text : "the receiver is away");
        if (!wait_ms(sender, answer.wait_ms ? answer.wait_ms : randomised(pause_ms))) {
            lose(sender, LOSS_SHUTDOWN, 1, "");
            return true;
        }
        pause_ms = pause_ms * 2 < SENDER_MAX_RETRY_MS ? pause_ms * 2 : SENDER_MAX_RETRY_MS;
    }
    if (answer.outcome == EXPORT_DONE)
        count_sent(sender, &answer);
    else if (answer.outcome == EXPORT_REFUSED)
        lose(sender, LOSS_REFUSED, 1, answer.text);
    return answer.outcome != EXPORT_TOO_LARGE;
}

static void send_record(struct sender *sender, const struct record *record);

/* A half has the first or the last samples. */
static void send_halves(struct sender *sender, const struct record *record) {
    struct sonde_profile_part part = sonde_profile_everything(record->profile);
    size_t count = sonde_profile_sample_count(record->profile);
    if (count < 2) {
        lose(sender, LOSS_TOO_LARGE, 1, "");
        return;
    }
    for (int half = 0; half < 2; half++) {
        struct record halved = *record;
        part.first = half == 0 ? 0 : count / 2;
        part.end = half == 0 ? count / 2 : count;
        if (sonde_profile_copy_part(record->profile, &part, &halved.profile))
            lose(sender, LOSS_MEMORY, 1, "");
        else
            send_record(sender, &halved);
        sonde_profile_destroy(halved.profile);
    }
}

/* The recursion ends, because each half has fewer samples. */
static void send_record(struct sender *sender, const struct record *record) {
    const struct export_protocol *protocol = sender->options.protocol;
    struct sonde_buf request = {0};
    bool is_sent = false;
    if (sonde_profile_sample_count(record->profile) <= protocol->max_samples) {
        if (protocol->encode(record, sender->host, &request)) {
            lose(sender, LOSS_MEMORY, 1, "");
            is_sent = true;
        } else if (request.len <= protocol->max_bytes) {
            is_sent = deliver(sender, sonde_buf_slice(&request));
        }
    }
    sonde_buf_finish(&request);
    if (!is_sent)
        send_halves(sender, record);
}

/* ---- The thread ---- */

static void *run(void *context) {
    struct sender *sender = context;
    bool goes_on = true;
    char name[16];
    snprintf(name, sizeof name, "to-%s", sender->options.protocol->name);
    pthread_setname_np(pthread_self(), name);
    while (goes_on) {
        lock_take(&sender->lock);
        bool is_stopping = sender->is_stopping, is_cancelled = sender->is_cancelled;
        lock_drop(&sender->lock);
        struct queue_item *item = queue_take(sender->queue, 1, 1000);
        if (item && is_cancelled)
            lose(sender, LOSS_SHUTDOWN, 1, "");
        else if (item && sonde_profile_sample_count(item->record.profile) > 0)
            send_record(sender, &item->record);
        goes_on = item || !is_stopping;
        queue_free(item);
    }
    lock_take(&sender->lock);
    sender->is_done = true;
    pthread_cond_broadcast(&sender->changed);
    lock_drop(&sender->lock);
    return NULL;
}

sonde_err sender_create(const struct sender_options *options, struct sender **created,
                        struct sonde_diag *diag) {
    struct sender *sender = calloc(1, sizeof *sender);
    *created = NULL;
    if (!sender) {
        options->transport->ops->destroy(options->transport);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    sender->options = *options;
    if (!options->queue_bytes)
        sender->options.queue_bytes = SENDER_QUEUE_BYTES;
    if (!options->retry_ms)
        sender->options.retry_ms = SENDER_RETRY_MS;
    if (!options->deadline_ms)
        sender->options.deadline_ms = SENDER_DEADLINE_MS;
    snprintf(sender->shown, sizeof sender->shown, "%s", options->shown);
    snprintf(sender->host, sizeof sender->host, "%s", options->host);
    lock_init(&sender->lock, LOCK_EXPORT);
    pthread_cond_init(&sender->changed, NULL);
    sender->queue = queue_create(sender->options.queue_bytes);
    if (sender->queue)
        sender->has_thread = pthread_create(&sender->thread, NULL, run, sender) == 0;
    if (!sender->has_thread) {
        sender_destroy(sender);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "a thread cannot be started");
    }
    *created = sender;
    return SONDE_OK;
}

void sender_add(struct sender *sender, const struct record *record) {
    uint64_t before = queue_lost(sender->queue);
    queue_add_record(sender->queue, record);
    if (queue_lost(sender->queue) > before)
        lose(sender, LOSS_QUEUE_FULL, 0, "");
}

void sender_state(struct sender *sender, struct sender_state *state) {
    *state = (struct sender_state){.name = sender->options.protocol->name,
                                   .shown = sender->shown,
                                   .queue_bytes = queue_bytes(sender->queue)};
    lock_take(&sender->lock);
    state->sent = sender->sent;
    state->retries = sender->retries;
    memcpy(state->lost, sender->lost, sizeof state->lost);
    memcpy(state->trouble, sender->trouble, sizeof state->trouble);
    lock_drop(&sender->lock);
    state->lost[LOSS_QUEUE_FULL] = queue_lost(sender->queue);
}

static void set_stop(struct sender *sender, bool is_cancelled) {
    lock_take(&sender->lock);
    sender->is_stopping = true;
    sender->is_cancelled |= is_cancelled;
    pthread_cond_broadcast(&sender->changed);
    lock_drop(&sender->lock);
    queue_wake(sender->queue);
}

void sender_stop(struct sender *sender, int64_t until_ns) {
    if (!sender->has_thread)
        return;
    set_stop(sender, false);
    lock_take(&sender->lock);
    while (!sender->is_done && wait_until(sender, until_ns)) {
    }
    lock_drop(&sender->lock);
    set_stop(sender, true);
    sender->options.transport->ops->cancel(sender->options.transport);
    pthread_join(sender->thread, NULL);
    sender->has_thread = false;
}

void sender_destroy(struct sender *sender) {
    if (!sender)
        return;
    sender_stop(sender, 0);
    sender->options.transport->ops->destroy(sender->options.transport);
    queue_destroy(sender->queue);
    pthread_cond_destroy(&sender->changed);
    lock_finish(&sender->lock);
    free(sender);
}
