/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread takes segments and sends them over one call of Write, a request at a time.
 *
 * A request that was sent and not answered may be in the middle of its insert. The same instance
 * may get it again at once: it asks the store first. Another instance could ask before that insert
 * has ended, so it gets the request only after DELIVER_SWITCH_MS, when the insert cannot run any
 * more. */
#include "clients/collect/spool/deliver.h"

#include "api/base/clock.h"
#include "clients/c/client.h"
#include "clients/collect/policy/backoff.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_REQUEST_BYTES ((4u << 20) - 2048)
#define MAX_UNKNOWN       10000
#define FORGET_S          60 /* after which a stack may be asked for again */

struct deliver {
    struct deliver_options options;
    pthread_t thread;
    bool has_thread;
    struct client *client;
    struct client_call *call;
    size_t address; /* in use */
    bool is_uncertain;
    int64_t uncertain_ms, forgot_ms;
    uint64_t number;             /* of the last request */
    uint64_t asked[MAX_UNKNOWN]; /* stacks that hosts were asked for in this minute */
    size_t asked_count;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool is_stopping, has_sent, has_answer, has_ended;
    sonde_err end_err;
    struct sonde_diag end_diag;
    uint32_t stored, duplicates, rejected; /* of the answer */
    uint64_t unknown[MAX_UNKNOWN];
    size_t unknown_count;
    struct deliver_state state;
};

/* With the lock held: waits until something changes; false after `until_ms`. */
static bool wait_change(struct deliver *deliver, int64_t until_ms) {
    const struct timespec until = clock_timespec(until_ms * 1000000);
    return pthread_cond_clockwait(&deliver->changed, &deliver->lock, CLOCK_MONOTONIC, &until) == 0;
}

static bool is_stopping(struct deliver *deliver) {
    pthread_mutex_lock(&deliver->lock);
    bool stopping = deliver->is_stopping;
    pthread_mutex_unlock(&deliver->lock);
    return stopping;
}

static void pause_for(struct deliver *deliver, uint32_t ms) {
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + ms;
    pthread_mutex_lock(&deliver->lock);
    while (!deliver->is_stopping && clock_ms(CLOCK_MONOTONIC) < until_ms)
        (void)wait_change(deliver, until_ms);
    pthread_mutex_unlock(&deliver->lock);
}

/* ---- The call ---- */

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct deliver *deliver = context;
    const Sonde__V1__WriteResponse *answer = (const Sonde__V1__WriteResponse *)message;
    (void)call;
    pthread_mutex_lock(&deliver->lock);
    deliver->has_answer = true;
    deliver->stored = answer->stored;
    deliver->duplicates = answer->duplicates;
    deliver->rejected = answer->rejected;
    deliver->unknown_count =
        answer->n_unknown_stacks < MAX_UNKNOWN ? answer->n_unknown_stacks : MAX_UNKNOWN;
    for (size_t i = 0; i < deliver->unknown_count; i++)
        deliver->unknown[i] = answer->unknown_stacks[i];
    pthread_cond_broadcast(&deliver->changed);
    pthread_mutex_unlock(&deliver->lock);
    return true;
}

static void on_sent(void *context, struct client_call *call) {
    struct deliver *deliver = context;
    (void)call;
    pthread_mutex_lock(&deliver->lock);
    deliver->has_sent = true;
    pthread_cond_broadcast(&deliver->changed);
    pthread_mutex_unlock(&deliver->lock);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct deliver *deliver = context;
    pthread_mutex_lock(&deliver->lock);
    deliver->has_ended = true;
    deliver->end_err = err ? err : SONDE_UNAVAILABLE;
    deliver->end_diag = diag ? *diag : (struct sonde_diag){0};
    pthread_cond_broadcast(&deliver->changed);
    pthread_mutex_unlock(&deliver->lock);
}

static void close_call(struct deliver *deliver) {
    client_destroy(deliver->client); /* ends the call, which calls on_end */
    deliver->client = NULL;
    deliver->call = NULL;
}

static sonde_err open_call(struct deliver *deliver, struct sonde_slice first,
                           struct sonde_diag *diag) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    const struct deliver_options *from = &deliver->options;
    const struct client_options options = {
        .address = from->addresses[deliver->address],
        .token_file = from->token_file,
        .tls = from->tls,
        .server_name = from->server_name,
    };
    deliver->has_ended = false;
    sonde_err err = client_create(&options, &deliver->client, diag);
    if (err)
        return err;
    deliver->call = client_call_start_packed(deliver->client, &client_write, first, &callbacks,
                                             on_sent, deliver);
    return deliver->call ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a call");
}

/* Also until the call may send the next request. */
static sonde_err wait_answer(struct deliver *deliver, struct sonde_diag *diag) {
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + DELIVER_DEADLINE_MS;
    sonde_err err = SONDE_OK;
    pthread_mutex_lock(&deliver->lock);
    while (!(deliver->has_answer && deliver->has_sent) && !deliver->has_ended &&
           !deliver->is_stopping && !err)
        if (!wait_change(deliver, until_ms) && clock_ms(CLOCK_MONOTONIC) >= until_ms)
            err = sonde_fail(diag, SONDE_DEADLINE_EXCEEDED,
                             "History did not answer in %u s; its log says what it waits for",
                             DELIVER_DEADLINE_MS / 1000);
    if (!err && !deliver->has_answer && deliver->has_ended) {
        *diag = deliver->end_diag;
        err = deliver->end_err;
    } else if (!err && !deliver->has_answer) {
        err = SONDE_CANCELLED;
    }
    pthread_mutex_unlock(&deliver->lock);
    return err;
}

/* Sends one request and waits until it is stored. */
static sonde_err send_once(struct deliver *deliver, struct sonde_slice request,
                           struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    pthread_mutex_lock(&deliver->lock);
    deliver->has_answer = deliver->has_sent = false;
    bool has_ended = deliver->has_ended;
    snprintf(deliver->state.address, sizeof deliver->state.address, "%s",
             deliver->options.addresses[deliver->address]);
    deliver->state.requests++;
    pthread_mutex_unlock(&deliver->lock);
    if (deliver->client && has_ended)
        close_call(deliver);
    if (deliver->client)
        client_call_send_packed(deliver->call, request);
    else
        err = open_call(deliver, request, diag);
    if (!err)
        err = wait_answer(deliver, diag);
    if (err)
        close_call(deliver);
    return err;
}

/* ---- Requests ---- */

/* Errors that the same request will meet again, wherever it is sent. */
static bool is_refusal(sonde_err err) {
    return err == SONDE_INVALID_ARGUMENT || err == SONDE_TOO_LARGE;
}

/* Another instance is tried when this one cannot have the request any more. */
static void choose_address(struct deliver *deliver, sonde_err err) {
    bool was_sent = err == SONDE_DEADLINE_EXCEEDED || err == SONDE_UNAVAILABLE;
    if (was_sent && !deliver->is_uncertain) {
        deliver->is_uncertain = true;
        deliver->uncertain_ms = clock_ms(CLOCK_MONOTONIC);
    }
    if (deliver->options.address_count < 2 ||
        (deliver->is_uncertain &&
         clock_ms(CLOCK_MONOTONIC) - deliver->uncertain_ms < DELIVER_SWITCH_MS))
        return;
    deliver->address = (deliver->address + 1) % deliver->options.address_count;
    deliver->is_uncertain = false;
}

static void set_trouble(struct deliver *deliver, const char *text) {
    char line[512];
    pthread_mutex_lock(&deliver->lock);
    bool is_new = (deliver->state.trouble[0] == 0) != (text[0] == 0);
    snprintf(deliver->state.trouble, sizeof deliver->state.trouble, "%s", text);
    pthread_mutex_unlock(&deliver->lock);
    if (!is_new || !deliver->options.log)
        return;
    snprintf(line, sizeof line, "history: %s%.300s", text[0] ? "windows wait in the spool: " : "",
             text[0] ? text : "windows are stored again");
    deliver->options.log(line);
}

/* Repeats a request until it is stored or refused. SONDE_CANCELLED: stopping. */
static sonde_err send_request(struct deliver *deliver, struct sonde_slice request,
                              struct sonde_diag *diag) {
    char text[400];
    for (uint32_t failures = 1;; failures++) {
        *diag = (struct sonde_diag){0};
        sonde_err err = send_once(deliver, request, diag);
        if (!err) {
            deliver->is_uncertain = false;
            set_trouble(deliver, "");
            return SONDE_OK;
        }
        if (is_refusal(err) || is_stopping(deliver))
            return is_refusal(err) ? err : SONDE_CANCELLED;
        snprintf(text, sizeof text, "%.100s: %.280s", deliver->options.addresses[deliver->address],
                 sonde_diag_text(diag, err));
        set_trouble(deliver, text);
        choose_address(deliver, err);
        pthread_mutex_lock(&deliver->lock);
        deliver->state.retries++;
        pthread_mutex_unlock(&deliver->lock);
        uint32_t pause_ms = backoff_ms(failures, BACKOFF_MAX_MS);
        pause_for(deliver, pause_ms < DELIVER_MAX_RETRY_MS ? pause_ms : DELIVER_MAX_RETRY_MS);
    }
}

/* Whether hosts have been asked for a stack in the last minute. */
static bool is_asked(const struct deliver *deliver, uint64_t stack) {
    for (size_t i = 0; i < deliver->asked_count; i++)
        if (deliver->asked[i] == stack)
            return true;
    return false;
}

static void ask_hosts(struct deliver *deliver, const struct spool_entry *entries, size_t count) {
    uint64_t *sources = malloc((count + 1) * sizeof *sources);
    size_t first = deliver->asked_count, source_count = 0;
    if (clock_ms(CLOCK_MONOTONIC) - deliver->forgot_ms > FORGET_S * 1000) {
        deliver->asked_count = first = 0;
        deliver->forgot_ms = clock_ms(CLOCK_MONOTONIC);
    }
    for (size_t i = 0; i < deliver->unknown_count && deliver->asked_count < MAX_UNKNOWN; i++)
        if (!is_asked(deliver, deliver->unknown[i]))
            deliver->asked[deliver->asked_count++] = deliver->unknown[i];
    for (size_t i = 0; i < count && sources; i++)
        if (source_count == 0 || sources[source_count - 1] != entries[i].source)
            sources[source_count++] = entries[i].source;
    if (sources && deliver->asked_count > first && deliver->options.on_unknown)
        deliver->options.on_unknown(deliver->options.context, sources, source_count,
                                    deliver->asked + first, deliver->asked_count - first);
    free(sources);
}

static void count_answer(struct deliver *deliver) {
    pthread_mutex_lock(&deliver->lock);
    deliver->state.windows_stored += deliver->stored;
    deliver->state.duplicates += deliver->duplicates;
    deliver->state.rejected += deliver->rejected;
    pthread_mutex_unlock(&deliver->lock);
}

static void count_refused(struct deliver *deliver, const struct spool_entry *entry,
                          const char *text) {
    char line[512];
    pthread_mutex_lock(&deliver->lock);
    bool is_first = deliver->state.refused_windows == 0;
    deliver->state.refused_windows += entry->windows ? entry->windows : 1;
    pthread_mutex_unlock(&deliver->lock);
    snprintf(line, sizeof line, "history refused %u windows, which are lost: %.300s",
             entry->windows, text);
    if (is_first && deliver->options.log)
        deliver->options.log(line);
}

/* Entries as one request: packed messages that follow each other are one message whose repeated
 * fields are joined. */
static sonde_err send_joined(struct deliver *deliver, const struct spool_entry *entries,
                             size_t count, struct sonde_diag *diag) {
    struct sonde_buf bytes = {0};
    Sonde__V1__WriteRequest head = SONDE__V1__WRITE_REQUEST__INIT;
    uint8_t packed[16];
    head.delivery = ++deliver->number;
    sonde_buf_append(&bytes, packed, sonde__v1__write_request__pack(&head, packed));
    for (size_t i = 0; i < count; i++)
        sonde_buf_append(&bytes, entries[i].bytes.data, entries[i].bytes.len);
    sonde_err err = bytes.failed ? sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a request")
                                 : send_request(deliver, sonde_buf_slice(&bytes), diag);
    sonde_buf_finish(&bytes);
    return err;
}

/* If History refuses them together, each is sent by itself. False: they must be tried again. */
static bool send_entries(struct deliver *deliver, const struct spool_entry *entries, size_t count) {
    struct sonde_diag diag = {0};
    sonde_err err = send_joined(deliver, entries, count, &diag);
    if (err == SONDE_CANCELLED || err == SONDE_OUT_OF_MEMORY)
        return false;
    if (!err) {
        count_answer(deliver);
        ask_hosts(deliver, entries, count);
        return true;
    }
    if (count == 1) {
        count_refused(deliver, entries, sonde_diag_text(&diag, err));
        return true;
    }
    bool goes_on = true;
    for (size_t i = 0; i < count && goes_on; i++)
        goes_on = send_entries(deliver, &entries[i], 1);
    return goes_on;
}

static bool send_segment(struct deliver *deliver, const struct spool_segment *segment) {
    size_t first = 0;
    while (first < segment->count) {
        size_t bytes = 0, count = 0;
        while (
            first + count < segment->count &&
            (count == 0 || bytes + segment->entries[first + count].bytes.len <= MAX_REQUEST_BYTES))
            bytes += segment->entries[first + count++].bytes.len;
        if (!send_entries(deliver, &segment->entries[first], count))
            return false;
        first += count;
    }
    return true;
}

static void *run(void *context) {
    struct deliver *deliver = context;
    pthread_setname_np(pthread_self(), "deliver");
    while (!is_stopping(deliver)) {
        struct spool_segment *segment = spool_take(deliver->options.spool, 1000);
        if (!segment)
            continue;
        if (send_segment(deliver, segment))
            spool_done(deliver->options.spool, segment);
        else
            spool_put_back(deliver->options.spool, segment);
    }
    close_call(deliver);
    return NULL;
}

/* ---- Life ---- */

sonde_err deliver_create(const struct deliver_options *options, struct deliver **created,
                         struct sonde_diag *diag) {
    struct deliver *deliver = calloc(1, sizeof *deliver);
    *created = NULL;
    if (!deliver)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the delivery");
    deliver->options = *options;
    deliver->forgot_ms = clock_ms(CLOCK_MONOTONIC);
    pthread_mutex_init(&deliver->lock, NULL);
    pthread_cond_init(&deliver->changed, NULL);
    deliver->has_thread = pthread_create(&deliver->thread, NULL, run, deliver) == 0;
    if (!deliver->has_thread) {
        deliver_destroy(deliver);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "a thread cannot be started");
    }
    *created = deliver;
    return SONDE_OK;
}

void deliver_state(struct deliver *deliver, struct deliver_state *state) {
    pthread_mutex_lock(&deliver->lock);
    *state = deliver->state;
    pthread_mutex_unlock(&deliver->lock);
}

void deliver_destroy(struct deliver *deliver) {
    if (!deliver)
        return;
    pthread_mutex_lock(&deliver->lock);
    deliver->is_stopping = true;
    pthread_cond_broadcast(&deliver->changed);
    pthread_mutex_unlock(&deliver->lock);
    if (deliver->has_thread)
        pthread_join(deliver->thread, NULL);
    pthread_cond_destroy(&deliver->changed);
    pthread_mutex_destroy(&deliver->lock);
    free(deliver);
}
