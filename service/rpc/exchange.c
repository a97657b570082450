/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: many unary calls over one stream. A call of gRPC's core costs tens of thousands of
 * instructions whatever it says; here what a busy client asks meanwhile comes in one message, and
 * what is ready meanwhile leaves in one:
 *
 *     message in ── entry ── rpc_call_begin_carried ── handler ── reply ─┐
 *                 └ entry ── ...                                         ├─ outgoing ── message out
 *     later, from the engine or a worker ── rpc_reply ───────────────────┘
 *
 * To its handler a call in here looks like any other. Answers gather while a message is under way,
 * and while the calls of a message that came are being started. The next message is read when the
 * answers to be sent, and those that may come, are not too many: who does not read is read no more.
 */
#include "api/profile/pprof/wire.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/core/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CALLS       1024 /* of a message, and running */
#define MESSAGE_BYTES   (1u << 20)
#define MAX_HELD        (4u << 20) /* answers that wait or may come; above it nothing is read */
#define SMALL_ANSWER    2048       /* what a call may be answered, at a guess: this */
#define ANSWER_TIMES    10         /* and so many times its request */
#define MAX_DEADLINE_MS 3600000
#define SLOTS           256
#define SERVICE         "/sonde.v1.Profiler/"

/* A message to be sent, packed. */
struct letter {
    struct letter *next;
    struct sonde_buf bytes;
};

struct exchange {
    struct rpc_call *stream;
    struct entry *running[SLOTS]; /* by id */
    uint32_t running_count;
    struct letter *first, **last;
    size_t unsent_bytes, expected_bytes;
    uint64_t calls, messages;
    bool is_reading;  /* calls of a message are being started */
    bool owes_a_read; /* the next message waits until the answers are fewer */
    bool has_closed, is_stopping;
    bool is_over; /* the stream has failed or is gone: nothing is sent any more */
    sonde_err failed;
};

/* A call under way: in the table from when its handler has been started until it is answered. */
struct entry {
    struct exchange *exchange;
    struct rpc_call *call;
    uint64_t id;
    size_t expected_bytes;
    struct entry *next, **link; /* in its slot; link NULL: not there */
    struct loop_timer timer;
};

/* --- answers ---------------------------------------------------------------------------------- */

static struct letter *add_letter(struct exchange *exchange) {
    struct letter *letter = calloc(1, sizeof *letter);
    if (!letter) {
        exchange->failed = SONDE_OUT_OF_MEMORY;
        return NULL;
    }
    *exchange->last = letter;
    exchange->last = &letter->next;
    return letter;
}

static void drop_first(struct exchange *exchange) {
    struct letter *letter = exchange->first;
    exchange->first = letter->next;
    if (!exchange->first)
        exchange->last = &exchange->first;
    exchange->unsent_bytes -= letter->bytes.len;
    sonde_buf_finish(&letter->bytes);
    free(letter);
}

/* Room for an answer in the last letter, or in a new one where it would grow too large. */
static uint8_t *make_room(struct exchange *exchange, size_t size) {
    struct letter *letter =
        exchange->first ? loop_owner(exchange->last, struct letter, next) : add_letter(exchange);
    if (letter && letter->bytes.len && letter->bytes.len + size > MESSAGE_BYTES)
        letter = add_letter(exchange);
    char *room = letter ? sonde_buf_extend(&letter->bytes, size) : NULL;
    if (room)
        exchange->unsent_bytes += size;
    return (uint8_t *)room;
}

static uint8_t *put_bytes(uint8_t *at, uint32_t field, const void *bytes, size_t len) {
    if (len == 0)
        return at;
    at = wire_put_varint(wire_put_varint(at, field << 3 | WIRE_BYTES), len);
    memcpy(at, bytes, len);
    return at + len;
}

static size_t bytes_size(size_t len) {
    return len ? 1 + wire_varint_size(len) + len : 0;
}

static size_t number_size(uint64_t value) {
    return value ? 1 + wire_varint_size(value) : 0;
}

/* By hand: the generic packer takes as long as all the rest of a small answer. */
static void put_answer(struct exchange *exchange, const Sonde__V1__ExchangeResponse__Answer *it) {
    size_t reason = strlen(it->reason), message = strlen(it->message);
    size_t size = number_size(it->id) + bytes_size(it->response.len) + number_size(it->code) +
                  bytes_size(reason) + bytes_size(message);
    if (exchange->is_over)
        return;
    uint8_t *at = make_room(exchange, 1 + wire_varint_size(size) + size);
    if (!at) {
        exchange->failed = SONDE_OUT_OF_MEMORY;
        return;
    }
    at = wire_put_varint(wire_put_varint(at, 1 << 3 | WIRE_BYTES), size);
    at = put_bytes(wire_put_field(at, 1, it->id), 2, it->response.data, it->response.len);
    at = put_bytes(wire_put_field(at, 3, it->code), 4, it->reason, reason);
    put_bytes(at, 5, it->message, message);
}

static void put_refusal(struct exchange *exchange, uint64_t id, sonde_err err,
                        const struct sonde_diag *diag) {
    const struct sonde_error_info *info = sonde_error_info(err);
    Sonde__V1__ExchangeResponse__Answer answer = SONDE__V1__EXCHANGE_RESPONSE__ANSWER__INIT;
    char text[512];
    rpc_text_copy(text, sizeof text, sonde_diag_text(diag, err));
    answer.id = id;
    answer.code = (uint32_t)info->grpc_status;
    answer.reason = (char *)info->reason;
    answer.message = text;
    put_answer(exchange, &answer);
}

/* --- the stream's course ---------------------------------------------------------------------- */

static void send_first(struct exchange *exchange) {
    struct letter *letter = exchange->first;
    grpc_slice slice = letter->bytes.data
                           ? grpc_slice_from_copied_buffer(letter->bytes.data, letter->bytes.len)
                           : grpc_empty_slice();
    drop_first(exchange);
    exchange->messages++;
    rpc_send_slice(exchange->stream, slice);
}

/* Nobody hears the answers of what still runs. Handlers may answer while they give up, which takes
 * them out of the table. */
static void give_up_all(struct exchange *exchange) {
    exchange->is_over = true;
    for (size_t i = 0; i < SLOTS; i++)
        while (exchange->running[i])
            rpc_call_give_up(exchange->running[i]->call, SONDE_CANCELLED);
}

static void fail(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    rpc_finish(exchange->stream, err, diag);
    give_up_all(exchange);
}

static void end_if_over(struct exchange *exchange) {
    struct sonde_diag diag = {0};
    if (exchange->running_count || exchange->first || exchange->is_reading)
        return;
    if (exchange->is_stopping)
        fail(exchange, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
    else if (exchange->has_closed)
        rpc_finish(exchange->stream, SONDE_OK, NULL);
}

/* After everything that happened: what can be sent, read, or ended? */
static void settle(struct exchange *exchange) {
    struct rpc_call *stream = exchange->stream;
    if (exchange->is_reading || exchange->is_over || rpc_call_finished(stream))
        return;
    if (exchange->failed) {
        fail(exchange, exchange->failed, NULL);
        return;
    }
    if (exchange->first && !rpc_call_sending(stream))
        send_first(exchange);
    if (exchange->owes_a_read && exchange->unsent_bytes + exchange->expected_bytes <= MAX_HELD) {
        exchange->owes_a_read = false;
        rpc_receive(stream);
    }
    end_if_over(exchange);
}

static void on_sent(struct rpc_call *stream) {
    settle(rpc_call_state(stream));
}

static void on_closed(struct rpc_call *stream) {
    struct exchange *exchange = rpc_call_state(stream);
    exchange->has_closed = true;
    end_if_over(exchange);
}

static void on_stop(struct rpc_call *stream) {
    struct exchange *exchange = rpc_call_state(stream);
    exchange->is_stopping = true;
    end_if_over(exchange);
}

static void on_gone(struct rpc_call *stream) {
    give_up_all(rpc_call_state(stream));
}

static void release(struct rpc_call *stream) {
    struct exchange *exchange = rpc_call_state(stream);
    rpc_call_note(stream, " calls=%llu messages=%llu", (unsigned long long)exchange->calls,
                  (unsigned long long)exchange->messages);
    while (exchange->first)
        drop_first(exchange);
    free(exchange);
}

static struct exchange *create(struct rpc_call *stream) {
    static const struct rpc_call_events events = {on_sent, on_gone, on_stop, release};
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->stream = stream;
    exchange->last = &exchange->first;
    rpc_call_set(stream, &events, exchange);
    rpc_call_on_closed(stream, on_closed);
    return exchange;
}

/* --- one call --------------------------------------------------------------------------------- */

static struct entry *find(struct exchange *exchange, uint64_t id) {
    struct entry *entry = exchange->running[id % SLOTS];
    while (entry && entry->id != id)
        entry = entry->next;
    return entry;
}

static void on_time_over(struct loop_timer *timer) {
    rpc_call_give_up(loop_owner(timer, struct entry, timer)->call, SONDE_DEADLINE_EXCEEDED);
}

/* The handler has not answered yet: the table holds a reference until it does. */
static void enlist(struct entry *entry, uint32_t deadline_ms) {
    struct exchange *exchange = entry->exchange;
    struct entry **slot = &exchange->running[entry->id % SLOTS];
    entry->next = *slot;
    entry->link = slot;
    if (entry->next)
        entry->next->link = &entry->next;
    *slot = entry;
    exchange->running_count++;
    exchange->expected_bytes += entry->expected_bytes;
    rpc_call_take(entry->call);
    entry->timer.run = on_time_over;
    if (deadline_ms)
        loop_timer_set(rpc_call_server(exchange->stream)->loop, &entry->timer, deadline_ms);
}

/* Answered: settles the stream; frees the call unless its handler still holds it. */
static void leave(struct entry *entry) {
    struct exchange *exchange = entry->exchange;
    if (!entry->link)
        return;
    *entry->link = entry->next;
    if (entry->next)
        entry->next->link = entry->link;
    entry->link = NULL;
    exchange->running_count--;
    exchange->expected_bytes -= entry->expected_bytes;
    if (entry->timer.is_set)
        loop_timer_clear(rpc_call_server(exchange->stream)->loop, &entry->timer);
    settle(exchange);
    rpc_call_drop(entry->call);
}

static void on_reply(void *cargo, grpc_slice slice) {
    struct entry *entry = cargo;
    Sonde__V1__ExchangeResponse__Answer answer = SONDE__V1__EXCHANGE_RESPONSE__ANSWER__INIT;
    answer.id = entry->id;
    answer.response.data = GRPC_SLICE_START_PTR(slice);
    answer.response.len = GRPC_SLICE_LENGTH(slice);
    put_answer(entry->exchange, &answer);
    grpc_slice_unref(slice);
    leave(entry);
}

static void on_refusal(void *cargo, sonde_err err, const struct sonde_diag *diag) {
    struct entry *entry = cargo;
    put_refusal(entry->exchange, entry->id, err, diag);
    leave(entry);
}

static void on_release(void *cargo) {
    struct entry *entry = cargo;
    struct rpc_call *stream = entry->exchange->stream;
    free(entry);
    rpc_call_drop(stream);
}

static struct entry *entry_create(struct exchange *exchange, const struct rpc_method *method,
                                  uint64_t id) {
    static const struct rpc_carrier carrier = {on_reply, on_refusal, on_release};
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->exchange = exchange;
    entry->id = id;
    entry->call = rpc_call_carry(exchange->stream, method, &carrier, entry);
    if (entry->call)
        rpc_call_take(exchange->stream);
    else
        free(entry);
    return entry->call ? entry : NULL;
}

static const struct rpc_method *find_method(const char *name) {
    for (size_t i = 0; i < rpc_method_count; i++) {
        const char *path = rpc_methods[i].path;
        if (strncmp(path, SERVICE, sizeof SERVICE - 1) == 0 &&
            strcmp(path + sizeof SERVICE - 1, name) == 0)
            return &rpc_methods[i];
    }
    return NULL;
}

static sonde_err check(const struct exchange *exchange, const struct rpc_method *method,
                       const Sonde__V1__ExchangeRequest__Call *asked, struct sonde_diag *diag) {
    if (!method)
        return sonde_fail(diag, SONDE_UNIMPLEMENTED,
                          "no method of sonde.v1.Profiler has this name: say \"ListTargets\"");
    if (method->kind != RPC_UNARY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s is a stream: call it by itself, not within Exchange",
                          method->path + sizeof SERVICE - 1);
    if (asked->deadline_ms > MAX_DEADLINE_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "deadline_ms: \"%u\" is not a whole number from 0 to %d",
                          asked->deadline_ms, MAX_DEADLINE_MS);
    if (exchange->running_count >= MAX_CALLS)
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                          "%d calls of this stream are running, which is the limit", MAX_CALLS);
    return SONDE_OK;
}

static uint64_t deadline_ns(uint32_t deadline_ms) {
    struct timespec now;
    if (deadline_ms == 0)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + deadline_ms * 1000000ull;
}

static void start(struct exchange *exchange, const Sonde__V1__ExchangeRequest__Call *asked) {
    const struct rpc_method *method = find_method(asked->method);
    struct sonde_slice authorization = sonde_slice_of(asked->authorization);
    struct sonde_diag diag = {0};
    sonde_err err = check(exchange, method, asked, &diag);
    struct entry *entry = err ? NULL : entry_create(exchange, method, asked->id);
    if (!entry) {
        put_refusal(exchange, asked->id, err ? err : SONDE_OUT_OF_MEMORY, &diag);
        return;
    }
    if (authorization.len == 0)
        authorization = rpc_call_authorization(exchange->stream);
    entry->expected_bytes = SMALL_ANSWER + ANSWER_TIMES * asked->request.len;
    struct rpc_call *call = entry->call; /* the entry ends with its call */
    rpc_call_begin_carried(
        call, authorization,
        (struct sonde_slice){(const char *)asked->request.data, asked->request.len},
        deadline_ns(asked->deadline_ms));
    if (!rpc_call_finished(call))
        enlist(entry, asked->deadline_ms);
    rpc_call_drop(call);
}

/* --- one message ------------------------------------------------------------------------------ */

static sonde_err start_all(struct exchange *exchange, const Sonde__V1__ExchangeRequest *request,
                           struct sonde_diag *diag) {
    if (request->n_calls > MAX_CALLS || request->n_cancelled > MAX_CALLS)
        return sonde_fail(diag, SONDE_TOO_LARGE, "a message may have %d calls and cancellations",
                          MAX_CALLS);
    for (size_t i = 0; i < request->n_calls; i++) {
        const Sonde__V1__ExchangeRequest__Call *asked = request->calls[i];
        if (find(exchange, asked->id))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "id %llu is that of a call that runs: take another for each call",
                              (unsigned long long)asked->id);
        exchange->calls++;
        start(exchange, asked);
    }
    for (size_t i = 0; i < request->n_cancelled; i++) {
        struct entry *entry = find(exchange, request->cancelled[i]);
        if (entry)
            rpc_call_give_up(entry->call, SONDE_CANCELLED);
    }
    return SONDE_OK;
}

void rpc_exchange(struct rpc_call *stream, const ProtobufCMessage *message) {
    const Sonde__V1__ExchangeRequest *request = (const void *)message;
    struct exchange *exchange = rpc_call_state(stream);
    struct sonde_diag diag = {0};
    if (!exchange && !(exchange = create(stream))) {
        rpc_finish(stream, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    exchange->is_reading = true;
    sonde_err err = start_all(exchange, request, &diag);
    if (request->n_calls == 0 && request->n_cancelled == 0 && !exchange->first)
        add_letter(exchange);
    exchange->is_reading = false;
    exchange->owes_a_read = true;
    if (err)
        fail(exchange, err, &diag);
    settle(exchange);
}
