/* SPDX-License-Identifier: Apache-2.0
 *
 * Unary calls that go together over one stream (Exchange in profiler.proto).
 *
 *     caller          client_gather ── waiting ── client_flush ── message out
 *     client thread   the message has left: what waits meanwhile is the next
 *                     message in ── answers ── deliver each call's event
 *
 * The stream is opened with the first call and again after it has ended, at most so often; until
 * the service has answered its first, empty message, and whenever a call does not fit, calls go by
 * themselves. So a service that is away, restarts or knows no Exchange is met as without all this.
 * A call that is on the stream when it ends has ended with it: UNAVAILABLE.
 *
 * A call is in the table until it has its outcome (an answer, its time over, cancelled, the end of
 * the stream); whoever takes it out delivers its event. Ids are never used twice, so what comes for
 * a call that is out is nobody's. Order of locks: the gathering's, a call's, the client's. */
#include "clients/c/client_state.h"

#include "api/profile/pprof/wire.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS          256
#define MAX_RUNNING    512 /* and what waits, below the 1,024 of a message that the service takes */
#define MAX_WAITING    400
#define MAX_CALL_BYTES 4096 /* what is larger would hold the others up */
#define MAX_MESSAGE    (1u << 20)
#define RETRY_NS       1000000000ull
#define REFUSED_NS     10000000000ull /* the service knows no Exchange, or not for this token */
#define STUCK_NS       100000000ull   /* while a message does not leave, nothing else wakes us */

enum state { CLOSED, OPENING, OPEN };

struct client_gathering {
    struct client *client;
    pthread_mutex_t lock; /* guards what follows */
    enum state state;
    struct client_call *stream; /* NULL when CLOSED */
    bool is_sending;
    uint64_t retry_ns;        /* not before */
    struct sonde_buf waiting; /* an ExchangeRequest, packed */
    uint32_t waiting_count, running_count;
    struct gathered *running[SLOTS];
    struct gathered *soonest, *latest; /* with a deadline, in its order */
    uint64_t next_id;
};

struct gathered {
    struct client_way way;
    struct client_gathering *gathering;
    const struct client_method *method;
    struct client_callbacks callbacks;
    void *context;
    uint64_t id, due_ns;           /* due 0 = no deadline */
    struct gathered *next, **link; /* in its slot; link NULL: it has its outcome */
    struct gathered *sooner, *later;
    struct client_event event;
    bool is_posted; /* client's lock */
    ProtobufCBinaryData response;
    struct sonde_diag diag; /* code SONDE_OK: the response counts */
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the table, under the lock ---------------------------------------------------------------- */

/* Most calls of a client have the same time, so the place is mostly the end. */
static void add_deadline(struct client_gathering *gathering, struct gathered *call) {
    struct gathered *before = gathering->latest;
    while (before && before->due_ns > call->due_ns)
        before = before->sooner;
    call->sooner = before;
    call->later = before ? before->later : gathering->soonest;
    *(before ? &before->later : &gathering->soonest) = call;
    *(call->later ? &call->later->sooner : &gathering->latest) = call;
}

static void remove_deadline(struct client_gathering *gathering, struct gathered *call) {
    *(call->sooner ? &call->sooner->later : &gathering->soonest) = call->later;
    *(call->later ? &call->later->sooner : &gathering->latest) = call->sooner;
}

static void add(struct client_gathering *gathering, struct gathered *call) {
    struct gathered **slot = &gathering->running[call->id % SLOTS];
    call->next = *slot;
    call->link = slot;
    if (call->next)
        call->next->link = &call->next;
    *slot = call;
    gathering->running_count++;
    if (call->due_ns)
        add_deadline(gathering, call);
}

/* With its outcome: the caller delivers it, once the lock is free. */
static void take_out(struct client_gathering *gathering, struct gathered *call, sonde_err err) {
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    call->link = NULL;
    gathering->running_count--;
    if (call->due_ns)
        remove_deadline(gathering, call);
    call->diag.code = err;
}

static struct gathered *find(struct client_gathering *gathering, uint64_t id) {
    struct gathered *call = gathering->running[id % SLOTS];
    while (call && call->id != id)
        call = call->next;
    return call;
}

/* `next` of those that are out strings them together. */
static void deliver_all(struct client_gathering *gathering, struct gathered *call) {
    for (struct gathered *next; call; call = next) {
        next = call->next;
        client_hand_on(gathering->client, &call->event, &call->is_posted);
    }
    client_posted(gathering->client);
}

/* --- what goes out ---------------------------------------------------------------------------- */

static uint8_t *put_head(uint8_t *at, uint32_t field, size_t len) {
    return wire_put_varint(wire_put_varint(at, field << 3 | WIRE_BYTES), len);
}

static uint8_t *put_text(uint8_t *at, uint32_t field, const char *text, size_t len) {
    at = put_head(at, field, len);
    memcpy(at, text, len);
    return at + len;
}

static size_t bytes_size(size_t len) {
    return 1 + wire_varint_size(len) + len;
}

/* Packed in place, by hand: a Call of an ExchangeRequest. False when out of memory. */
static bool put_call(struct client_gathering *gathering, const struct gathered *call,
                     const ProtobufCMessage *request, uint32_t deadline_ms, const char *token) {
    static const char scheme[] = "Bearer ";
    const char *name = strrchr(call->method->path, '/') + 1;
    size_t name_len = strlen(name), token_len = token && *token ? strlen(token) : 0;
    size_t authorization = token_len ? sizeof scheme - 1 + token_len : 0;
    size_t request_len = protobuf_c_message_get_packed_size(request);
    size_t size = 1 + wire_varint_size(call->id) + bytes_size(name_len) + bytes_size(request_len) +
                  (authorization ? bytes_size(authorization) : 0) +
                  (deadline_ms ? 1 + wire_varint_size(deadline_ms) : 0);
    uint8_t *at = (uint8_t *)sonde_buf_extend(&gathering->waiting, bytes_size(size));
    if (!at)
        return false;
    at = wire_put_field(put_head(at, 1, size), 1, call->id);
    at = put_head(put_text(at, 2, name, name_len), 3, request_len);
    at += protobuf_c_message_pack(request, at);
    if (authorization) {
        at = put_head(at, 4, authorization);
        memcpy(at, scheme, sizeof scheme - 1);
        memcpy(at + sizeof scheme - 1, token, token_len);
        at += authorization;
    }
    wire_put_field(at, 5, deadline_ms);
    gathering->waiting_count++;
    return true;
}

static void put_cancellation(struct client_gathering *gathering, uint64_t id) {
    uint8_t bytes[WIRE_MAX_VARINT + 2];
    size_t len = (size_t)(wire_put_field(bytes, 2, id) - bytes);
    sonde_buf_append(&gathering->waiting, bytes, len);
}

/* What was said may hold tokens. */
static void forget_waiting(struct client_gathering *gathering) {
    if (gathering->waiting.data)
        explicit_bzero(gathering->waiting.data, gathering->waiting.len);
    gathering->waiting.len = 0;
    gathering->waiting_count = 0;
}

/* Under the lock. */
static void flush(struct client_gathering *gathering) {
    struct sonde_buf *waiting = &gathering->waiting;
    if (gathering->is_sending || gathering->state != OPEN || waiting->len == 0)
        return;
    gathering->is_sending = true;
    client_call_send_slice(gathering->stream,
                           grpc_slice_from_copied_buffer(waiting->data, waiting->len));
    forget_waiting(gathering);
}

void client_flush(struct client *client) {
    struct client_gathering *gathering = client->gathering;
    if (!gathering)
        return;
    pthread_mutex_lock(&gathering->lock);
    flush(gathering);
    pthread_mutex_unlock(&gathering->lock);
}

/* --- the stream, on the client's thread ------------------------------------------------------- */

static void on_sent(void *context, struct client_call *stream) {
    struct client_gathering *gathering = context;
    pthread_mutex_lock(&gathering->lock);
    gathering->is_sending = false;
    flush(gathering);
    pthread_mutex_unlock(&gathering->lock);
}

/* Under the lock. The response's bytes are moved: the message is ours alone. */
static struct gathered *take_answer(struct client_gathering *gathering,
                                    Sonde__V1__ExchangeResponse__Answer *answer) {
    struct gathered *call = find(gathering, answer->id);
    if (!call)
        return NULL;
    sonde_err err = answer->reason[0] ? sonde_error_from_reason(answer->reason)
                                      : sonde_error_from_grpc((int)answer->code);
    take_out(gathering, call, answer->code ? err : SONDE_OK);
    if (answer->code && !err)
        call->diag.code = SONDE_PROTOCOL;
    if (answer->code)
        snprintf(call->diag.text, sizeof call->diag.text, "%s", answer->message);
    call->response = answer->response;
    answer->response = (ProtobufCBinaryData){0};
    return call;
}

/* The first answer, which has nothing in it, says that calls may come. */
static bool on_message(void *context, struct client_call *stream, const ProtobufCMessage *message) {
    struct client_gathering *gathering = context;
    const Sonde__V1__ExchangeResponse *response = (const void *)message;
    struct gathered *first = NULL, **last = &first;
    pthread_mutex_lock(&gathering->lock);
    gathering->state = OPEN;
    for (size_t i = 0; i < response->n_answers; i++) {
        struct gathered *call = take_answer(gathering, response->answers[i]);
        if (!call)
            continue;
        call->next = NULL;
        *last = call;
        last = &call->next;
    }
    pthread_mutex_unlock(&gathering->lock);
    deliver_all(gathering, first);
    return true;
}

/* Under the lock: everything, strung together. */
static struct gathered *take_all(struct client_gathering *gathering, sonde_err err) {
    struct gathered *all = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        for (struct gathered *call; (call = gathering->running[i]);) {
            take_out(gathering, call, err);
            call->next = all;
            all = call;
        }
    }
    return all;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct client_gathering *gathering = context;
    pthread_mutex_lock(&gathering->lock);
    bool was_refused = gathering->state == OPENING && err != SONDE_UNAVAILABLE;
    gathering->state = CLOSED;
    gathering->stream = NULL;
    gathering->is_sending = false;
    gathering->retry_ns = now_ns() + (was_refused ? REFUSED_NS : RETRY_NS);
    forget_waiting(gathering);
    struct gathered *all =
        take_all(gathering, err == SONDE_CANCELLED ? SONDE_CANCELLED : SONDE_UNAVAILABLE);
    pthread_mutex_unlock(&gathering->lock);
    deliver_all(gathering, all);
}

/* Under the lock, which keeps the stream's events out until we know it. */
static void open_stream(struct client_gathering *gathering) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    Sonde__V1__ExchangeRequest nothing = SONDE__V1__EXCHANGE_REQUEST__INIT;
    if (gathering->state != CLOSED || now_ns() < gathering->retry_ns)
        return;
    gathering->stream = client_call_start_here(gathering->client, &client_exchange, &nothing.base,
                                               &callbacks, on_sent, gathering);
    gathering->is_sending = gathering->stream != NULL;
    gathering->state = gathering->stream ? OPENING : CLOSED;
}

/* --- one call --------------------------------------------------------------------------------- */

static void *take_piece(void *arena, size_t size) {
    return sonde_arena_alloc(arena, size);
}

static void leave_piece(void *arena, void *piece) {
    (void)arena;
    (void)piece;
}

/* A message is many small pieces: they come out of one block. */
static void hand_over(struct gathered *call) {
    struct sonde_arena arena = {0};
    ProtobufCAllocator pieces = {take_piece, leave_piece, &arena};
    ProtobufCMessage *message = protobuf_c_message_unpack(call->method->response, &pieces,
                                                          call->response.len, call->response.data);
    if (!message) {
        call->diag.code =
            sonde_fail(&call->diag, SONDE_PROTOCOL, "the service's answer is no %s message",
                       call->method->response->name);
    } else {
        call->callbacks.on_message(call->context, (struct client_call *)(void *)&call->way,
                                   message);
    }
    sonde_arena_finish(&arena);
}

static void run_event(struct client_event *event) {
    struct gathered *call = client_owner(event, struct gathered, event);
    struct client *client = call->gathering->client;
    client_delivered(client, &call->is_posted);
    if (!call->diag.code)
        hand_over(call);
    call->callbacks.on_end(call->context, call->diag.code, &call->diag);
    free(call->response.data);
    free(call);
    client_uncount_call(client);
}

static void on_cancel(struct client_way *way) {
    struct gathered *call = client_owner(way, struct gathered, way);
    struct client_gathering *gathering = call->gathering;
    pthread_mutex_lock(&gathering->lock);
    bool is_running = call->link != NULL;
    if (is_running) {
        take_out(gathering, call, SONDE_CANCELLED);
        put_cancellation(gathering, call->id);
        flush(gathering);
    }
    pthread_mutex_unlock(&gathering->lock);
    if (is_running)
        client_deliver(gathering->client, &call->event, &call->is_posted);
}

uint64_t client_gathering_expire(struct client_gathering *gathering) {
    struct gathered *first = NULL, **last = &first;
    pthread_mutex_lock(&gathering->lock);
    uint64_t now = gathering->soonest ? now_ns() : 0;
    while (gathering->soonest && gathering->soonest->due_ns <= now) {
        struct gathered *call = gathering->soonest;
        take_out(gathering, call, SONDE_DEADLINE_EXCEEDED);
        put_cancellation(gathering, call->id);
        call->next = NULL;
        *last = call;
        last = &call->next;
    }
    if (first)
        flush(gathering);
    uint64_t due_ns = gathering->soonest ? gathering->soonest->due_ns : 0;
    if (gathering->is_sending && gathering->state == OPEN)
        due_ns = now_ns() + STUCK_NS;
    pthread_mutex_unlock(&gathering->lock);
    deliver_all(gathering, first);
    return due_ns;
}

static struct gathered *create(struct client_gathering *gathering,
                               const struct client_method *method, uint32_t deadline_ms) {
    struct gathered *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->way.cancel = on_cancel;
    call->event.run = run_event;
    call->gathering = gathering;
    call->method = method;
    call->id = ++gathering->next_id;
    call->due_ns = deadline_ms ? now_ns() + deadline_ms * 1000000ull : 0;
    return call;
}

/* Under the lock: whether there is a stream, and room on it. */
static bool has_room(struct client_gathering *gathering) {
    open_stream(gathering);
    return gathering->state == OPEN && gathering->running_count < MAX_RUNNING &&
           gathering->waiting_count < MAX_WAITING && gathering->waiting.len < MAX_MESSAGE;
}

/* NULL: this call must go by itself. */
static struct client_call *gather(struct client_gathering *gathering,
                                  const struct client_method *method,
                                  const ProtobufCMessage *request, uint32_t deadline_ms,
                                  const char *token, const struct client_callbacks *callbacks,
                                  void *context) {
    struct gathered *call = NULL;
    bool shows_none = token && !*token && gathering->client->token;
    if (method->streaming || method->sends || shows_none ||
        protobuf_c_message_get_packed_size(request) > MAX_CALL_BYTES)
        return NULL;
    pthread_mutex_lock(&gathering->lock);
    if (has_room(gathering) && client_count_call(gathering->client)) {
        call = create(gathering, method, deadline_ms);
        if (call && put_call(gathering, call, request, deadline_ms, token)) {
            call->callbacks = *callbacks;
            call->context = context;
            add(gathering, call);
        } else {
            free(call);
            call = NULL;
            client_uncount_call(gathering->client);
        }
    }
    pthread_mutex_unlock(&gathering->lock);
    return call ? (struct client_call *)(void *)&call->way : NULL;
}

struct client_call *client_call_start(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      const char *token, const struct client_callbacks *callbacks,
                                      void *context) {
    struct client_call *call = NULL;
    if (client->gathering)
        call = gather(client->gathering, method, request, deadline_ms, token, callbacks, context);
    return call ? call
                : client_call_start_sending(client, method, request, deadline_ms, token, callbacks,
                                            NULL, context);
}

struct client_gathering *client_gathering_create(struct client *client) {
    struct client_gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering)
        return NULL;
    gathering->client = client;
    pthread_mutex_init(&gathering->lock, NULL);
    return gathering;
}

void client_gathering_destroy(struct client_gathering *gathering) {
    if (!gathering)
        return;
    forget_waiting(gathering);
    sonde_buf_finish(&gathering->waiting);
    pthread_mutex_destroy(&gathering->lock);
    free(gathering);
}
