/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of Collect: reads what the host sends, gives it to the spool, and acknowledges what is
 * durable. While the spool refuses, nothing more is read: gRPC's flow control stops the host, which
 * keeps its windows.
 *
 * A link is referenced by its call and by each entry in the spool, so that entries can be reported
 * after the call has ended. */
#include "clients/collect/controller/controller_state.h"
#include "clients/collect/policy/backoff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(DECODE_MAX_ENTRY <= SPOOL_MAX_ENTRY, "every entry fits into the spool");

struct in_spool {
    struct link *link;
    uint64_t seq;
};

struct link *link_create(struct controller *controller, struct host *host) {
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->refs = 1;
    link->controller = controller;
    link->host = host;
    link->begin_ms = link->heard_ms = now_monotonic_ms();
    link->is_reading = true;
    decoder_init(&link->decoder, &controller->passed);
    host_take(host);
    host->link = link;
    controller->link_count++;
    return link;
}

/* The client is destroyed by the main thread (controller_tick). */
void link_drop(struct link *link) {
    struct controller *controller = link->controller;
    if (--link->refs > 0)
        return;
    decoder_finish(&link->decoder);
    if (link->outbox)
        passed_clear(&controller->passed); /* definitions in it are lost */
    decoded_entry_free(link->outbox);
    link->outbox = NULL;
    free(link->resend);
    link->resend = NULL;
    link->next_ended = controller->ended;
    controller->ended = link;
}

/* ---- What is sent ---- */

void link_send(struct link *link) {
    struct sonde_arena arena = {0};
    if (link->is_sending || link->is_broken || !link->has_hello)
        return;
    Sonde__V1__CollectRequest *request = settings_next(link, &arena);
    if (request && link->call) {
        link->is_sending = true;
        link->transport->send(link->call, &request->base);
    }
    sonde_arena_finish(&arena);
}

void link_on_sent(struct link *link) {
    link->is_sending = false;
    link_send(link);
}

void link_break(struct link *link, sonde_err err, const char *text) {
    if (link->is_broken)
        return;
    link->is_broken = true;
    link->host->last_code = err;
    snprintf(link->host->last_error, sizeof link->host->last_error, "%s", text);
    if (link->call)
        link->transport->end(link->call, err, text);
}

/* ---- The spool ---- */

/* On the spool's thread. Entries of a link are reported in order. */
static void on_durable(void *context, bool is_durable) {
    struct in_spool *entry = context;
    struct link *link = entry->link;
    struct controller *controller = link->controller;
    lock(controller);
    if (!is_durable) {
        passed_clear(&controller->passed);
        link_break(link, SONDE_UNAVAILABLE, "the spool could not store what the host had sent");
    } else if (!link->is_broken && entry->seq > link->durable_seq) {
        link->durable_seq = entry->seq;
    }
    if (is_durable && link->host->source == link->decoder.source &&
        link->host->epoch == link->decoder.epoch && link->durable_seq > link->host->durable_seq)
        link->host->durable_seq = link->durable_seq;
    link_send(link);
    link_drop(link);
    unlock(controller);
    free(entry);
}

/* False: the spool is full. */
static bool store_entry(struct link *link, const struct decoded_entry *from) {
    struct in_spool *entry = malloc(sizeof *entry);
    const struct spool_entry bytes = {.source = link->decoder.source,
                                      .windows = from->windows,
                                      .bytes = sonde_buf_slice(&from->bytes)};
    if (!entry)
        return false;
    *entry = (struct in_spool){link, from->last_seq};
    link->refs++;
    if (spool_add(link->controller->options.spool, &bytes, on_durable, entry, NULL) == SONDE_OK) {
        link->given_seq = from->last_seq;
        return true;
    }
    link->refs--;
    free(entry);
    return false;
}

/* Whether everything is in the spool. */
static bool empty_outbox(struct link *link) {
    while (link->outbox && store_entry(link, link->outbox)) {
        struct decoded_entry *entry = link->outbox;
        link->outbox = entry->next;
        entry->next = NULL;
        decoded_entry_free(entry);
    }
    return link->outbox == NULL;
}

void link_retry(struct link *link) {
    if (link->is_reading || link->is_broken || !empty_outbox(link) || link->leave_ms)
        return;
    link->is_reading = true;
    if (link->call)
        link->transport->next(link->call);
}

/* ---- What is received ---- */

static void add_service(struct host *host, const char *name) {
    for (size_t i = host->service_count; i-- > 0;)
        if (strcmp(host->services[i], name) == 0)
            return;
    if (host->service_count == CONTROLLER_MAX_SERVICES)
        return;
    if (!host->services)
        host->services = calloc(CONTROLLER_MAX_SERVICES, sizeof *host->services);
    if (host->services && (host->services[host->service_count] = strdup(name)))
        host->service_count++;
}

static void on_window(void *context, const Sonde__V1__StoredWindow *window) {
    struct link *link = context;
    struct controller *controller = link->controller;
    int64_t now_ns = now_unix_ns();
    controller->windows++;
    controller->rows += window->n_stack;
    controller->samples += window->samples;
    link->host->windows++;
    link->host->last_window_unix_ns = now_ns;
    add_service(link->host, window->service);
    budget_count(controller->budget, window->service, window->instance, window->samples,
                 now_ns / 1000000000);
}

static void keep_losses(struct host *host) {
    for (size_t i = 0; i < MAX_LOSSES && host->status.lost[i].cause[0]; i++)
        loss_add(host->lost_before, host->status.lost[i].cause, host->status.lost[i].count);
    memset(host->status.lost, 0, sizeof host->status.lost);
}

static void read_status(struct host *host, const Sonde__V1__CollectStatus *from) {
    struct host_status *status = &host->status;
    if (from->windows < status->windows || from->next_seq < status->next_seq)
        keep_losses(host); /* a new session counts from 0 */
    *status = (struct host_status){
        .targets = from->targets,
        .not_drawn = from->not_drawn,
        .windows = from->windows,
        .acked_seq = from->acked_seq,
        .next_seq = from->next_seq,
        .kept_bytes = from->kept_bytes,
        .merged_windows = from->merged_windows,
        .lost_samples = from->lost_samples,
    };
    for (size_t i = 0; i < from->n_lost; i++)
        loss_add(status->lost, from->lost[i]->cause, from->lost[i]->count);
    snprintf(status->trouble, sizeof status->trouble, "%s", from->trouble);
    snprintf(status->refusal, sizeof status->refusal, "%s", from->refusal);
}

static sonde_err read_hello(struct link *link, const Sonde__V1__CollectHello *hello,
                            struct sonde_diag *diag) {
    struct host *host = link->host;
    struct controller *controller = link->controller;
    sonde_err err =
        decoder_hello(&link->decoder, hello, host->name, host->labels, host->label_count, diag);
    if (err)
        return err;
    if (hello->epoch != host->epoch || hello->source != host->source)
        host->durable_seq = 0;
    host->epoch = hello->epoch;
    host->source = hello->source;
    snprintf(host->host, sizeof host->host, "%s", hello->host);
    snprintf(host->instance, sizeof host->instance, "%s", hello->instance);
    snprintf(host->version, sizeof host->version, "%s", hello->version);
    host->connected_unix_ns = now_unix_ns();
    host->clock_offset_ns = hello->unix_ns - host->connected_unix_ns;
    if (host->state != HOST_CONNECTED && host->last_error[0])
        log_host(controller, host, "is connected again");
    host->state = HOST_CONNECTED;
    host->last_error[0] = 0;
    hosts_note_twins(controller, host);
    link->has_hello = true;
    link->durable_seq = link->acked_seq = host->durable_seq;
    breaker_report(controller->breaker, host->number, false, now_monotonic_ms());
    return SONDE_OK;
}

static sonde_err read_parts(struct link *link, const Sonde__V1__CollectResponse *response,
                            struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    uint64_t too_large = link->decoder.too_large;
    if (response->hello)
        err = read_hello(link, response->hello, diag);
    if (!err && response->status)
        read_status(link->host, response->status);
    if (!err)
        err = decoder_read(&link->decoder, response, on_window, link, &link->outbox, diag);
    link->controller->too_large += link->decoder.too_large - too_large;
    return err;
}

bool link_read(struct link *link, const Sonde__V1__CollectResponse *response) {
    struct sonde_diag diag = {0};
    size_t bytes = sonde__v1__collect_response__get_packed_size(response);
    link->heard_ms = now_monotonic_ms();
    link->host->bytes_received += bytes;
    link->controller->bytes_received += bytes;
    if (link->is_broken)
        return true;
    sonde_err err = read_parts(link, response, &diag);
    bool is_empty = empty_outbox(link);
    if (err)
        link_break(link, err, sonde_diag_text(&diag, err));
    link_send(link);
    link->is_reading = (is_empty && !link->leave_ms) || link->is_broken;
    return link->is_reading;
}

/* ---- The end ---- */

/* Errors that the host's owner must mend, so that trying often is of no use. */
static bool is_refusal(sonde_err err) {
    return err == SONDE_UNAUTHENTICATED || err == SONDE_PERMISSION_DENIED ||
           err == SONDE_NOT_AVAILABLE || err == SONDE_UNIMPLEMENTED ||
           err == SONDE_INVALID_ARGUMENT;
}

/* The host waits for its next call. A registered one decides by itself when that is. */
static void leave_host(struct link *link, bool is_ours, bool was_long, int64_t now_ms) {
    struct controller *controller = link->controller;
    struct host *host = link->host;
    host->link = NULL;
    host->connected_unix_ns = 0;
    host->gone_ms = now_ms;
    host->failures = is_ours ? 0 : was_long ? 1 : host->failures + 1;
    uint32_t max_ms = backoff_max_ms(controller->host_count);
    host->next_try_ms = now_ms + (is_ours ? 0 : backoff_ms(host->failures, max_ms));
    host->state = !host->is_own                 ? HOST_ELSEWHERE
                  : is_refusal(host->last_code) ? HOST_REFUSED
                                                : HOST_WAITING;
    if (!is_ours && !host->is_registered)
        breaker_report(controller->breaker, host->number, true, now_ms);
    if (!is_ours && host->is_own && host->failures == 1 && !controller->is_stopping)
        log_host(controller, host, host->last_error);
}

void link_on_end(struct link *link, sonde_err err, const char *text) {
    struct host *host = link->host;
    int64_t now_ms = now_monotonic_ms();
    bool was_long = link->has_hello && now_ms - link->begin_ms >= BACKOFF_RESET_S * 1000;
    /* Ended by this side, for no fault of the host. */
    bool is_ours = link->is_broken && host->last_code == SONDE_CANCELLED;
    link->call = NULL;
    if (!link->is_broken) {
        host->last_code = err ? err : SONDE_UNAVAILABLE;
        snprintf(host->last_error, sizeof host->last_error, "%s",
                 err ? text : "the host has ended the call");
    }
    link->is_broken = true;
    if (host->link == link)
        leave_host(link, is_ours, was_long, now_ms);
    link_drop(link);
}

/* ---- Calls to hosts ---- */

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct link *link = context;
    (void)call;
    lock(link->controller);
    bool goes_on = link_read(link, (const Sonde__V1__CollectResponse *)message);
    unlock(link->controller);
    return goes_on;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct link *link = context;
    struct controller *controller = link->controller;
    lock(controller);
    link_on_end(link, err, sonde_diag_text(diag, err));
    unlock(controller);
}

static void send_to_host(void *call, const ProtobufCMessage *message) {
    client_call_send(call, message);
}

static void read_from_host(void *call) {
    client_call_next(call);
}

static void end_call(void *call, sonde_err err, const char *text) {
    (void)err;
    (void)text;
    client_call_cancel(call);
}

static const struct link_transport to_host = {send_to_host, read_from_host, end_call};

static void on_sent(void *context, struct client_call *call) {
    struct link *link = context;
    (void)call;
    lock(link->controller);
    link_on_sent(link);
    unlock(link->controller);
}

static sonde_err connect_host(struct link *link, struct sonde_diag *diag) {
    const struct controller_options *from = &link->controller->options;
    const struct client_options options = {
        .address = link->host->address,
        .token_file = from->token_file,
        .tls = from->tls,
        .server_name = link->host->tls_name,
        .loop = from->loop,
        .is_lean = true,
    };
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    struct sonde_arena arena = {0};
    sonde_err err = client_create(&options, &link->client, diag);
    if (err)
        return err;
    Sonde__V1__CollectRequest *request = settings_start(link, &arena);
    link->transport = &to_host;
    link->is_sending = true;
    if (request)
        link->call = client_call_start_sending(link->client, &client_collect, &request->base, 0,
                                               NULL, &callbacks, on_sent, link);
    sonde_arena_finish(&arena);
    return link->call ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a call");
}

void link_start(struct controller *controller, struct host *host) {
    struct sonde_diag diag = {0};
    struct link *link = link_create(controller, host);
    if (!link)
        return;
    host->state = HOST_CONNECTING;
    sonde_err err = connect_host(link, &diag);
    if (err)
        link_on_end(link, err, sonde_diag_text(&diag, err));
}
