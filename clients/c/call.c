/* SPDX-License-Identifier: Apache-2.0
 *
 * One RPC.
 *
 * A unary call is one batch and one event. A streaming call has three batches: `send` (metadata,
 * request, half close, the answer's metadata), `status`, and `receive`, which is started again for
 * each message. A call with many requests sends them one at a time: its first `send` has the
 * metadata and a request; each later one has a request or the half close.
 *
 *     client's thread   on_answered, on_request_sent, ... ── advance ── deliver the event
 *     caller            client_event_run: on_message ... on_end, free
 *
 * The client's thread takes each batch's tag from the completion queue, records the result and, if
 * there is something to report, delivers the call's only event. The end is reported when the status
 * has arrived and all messages before it have been read; a cancelled call skips the messages. The
 * call's lock guards its state. `in_hand` is set from the delivery of the event until it has run,
 * so an event is never delivered twice. */
#include "clients/c/client_state.h"

#include "api/rpc/message.h"
#include "bazel/shims/grpc_core/tsan.h"

#include <grpc/byte_buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client_call {
    struct client *client;
    const struct client_method *method;
    struct client_callbacks callbacks;
    void *context;
    struct client_call *next, **link; /* in the client's list */
    struct rpc_channel *channel;
    grpc_call *call;
    pthread_mutex_t lock;
    struct client_tag unary_tag, send_tag, status_tag, receive_tag, wake_tag;
    struct client_event event;
    bool is_posted; /* client's lock */
    bool in_hand;   /* the event has been delivered or is running */
    bool is_sending, has_status, is_receiving, is_waking;
    void (*on_sent)(void *context, struct client_call *call);
    bool has_sent, has_closed; /* on_sent is due; the half close has been sent */
    bool has_read_all, is_cancelled, is_over;
    grpc_byte_buffer *request, *received;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    struct sonde_diag mistake; /* set when an answer could not be decoded */
};

static void batch(struct client_call *call, const grpc_op *ops, size_t count,
                  struct client_tag *tag) {
    core_tag_sent(tag);
    if (grpc_call_start_batch(call->call, ops, count, tag, NULL) != GRPC_CALL_OK)
        abort(); /* a bug in this file: the core refuses malformed batches only */
}

static bool is_stream(const struct client_method *method) {
    return method->streaming || method->sends;
}

/* Starts one receive, unless one is running or no message is wanted. Under the call's lock. */
static void receive(struct client_call *call) {
    if (call->is_receiving || call->received || call->has_read_all || call->is_cancelled)
        return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    call->is_receiving = true;
    batch(call, &op, 1, &call->receive_tag);
}

/* No batch is running and no other will be started. Under the call's lock. */
static bool is_complete(const struct client_call *call) {
    return !call->is_sending && !call->is_receiving && !call->is_waking && call->has_status &&
           (call->has_read_all || call->is_cancelled);
}

static bool has_end(const struct client_call *call) {
    return is_complete(call) && !call->received;
}

/* Delivers the event if there is something to report and the caller does not have it yet. */
static void advance(struct client_call *call) {
    pthread_mutex_lock(&call->lock);
    bool has_message = !call->is_receiving && call->received && is_stream(call->method);
    bool has_news = has_message || call->has_sent || is_complete(call);
    bool deliver = has_news && !call->in_hand;
    call->in_hand = call->in_hand || deliver;
    pthread_mutex_unlock(&call->lock);
    if (deliver)
        client_deliver(call->client, &call->event, &call->is_posted);
}

static void on_answered(struct client_tag *tag, bool ok) {
    struct client_call *call = container_of(tag, struct client_call, unary_tag);
    (void)ok;
    pthread_mutex_lock(&call->lock);
    call->is_sending = call->is_receiving = false;
    call->has_status = call->has_read_all = true;
    pthread_mutex_unlock(&call->lock);
    advance(call);
}

static void on_request_sent(struct client_tag *tag, bool ok) {
    struct client_call *call = container_of(tag, struct client_call, send_tag);
    pthread_mutex_lock(&call->lock);
    call->is_sending = false;
    call->has_sent = ok && call->on_sent && !call->has_closed;
    pthread_mutex_unlock(&call->lock);
    advance(call);
}

static void on_status(struct client_tag *tag, bool ok) {
    struct client_call *call = container_of(tag, struct client_call, status_tag);
    (void)ok;
    pthread_mutex_lock(&call->lock);
    call->has_status = true;
    pthread_mutex_unlock(&call->lock);
    advance(call);
}

static void on_received(struct client_tag *tag, bool ok) {
    struct client_call *call = container_of(tag, struct client_call, receive_tag);
    pthread_mutex_lock(&call->lock);
    call->is_receiving = false;
    call->has_read_all = !ok || !call->received;
    pthread_mutex_unlock(&call->lock);
    advance(call);
}

static void on_wake(struct client_tag *tag, bool ok) {
    struct client_call *call = container_of(tag, struct client_call, wake_tag);
    (void)ok;
    pthread_mutex_lock(&call->lock);
    call->is_waking = false;
    pthread_mutex_unlock(&call->lock);
    advance(call);
}

static void unlink_call(struct client_call *call) {
    struct client *client = call->client;
    pthread_mutex_lock(&client->lock);
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    client->call_count--;
    pthread_cond_signal(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static void free_call(struct client_call *call) {
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* Frees the call's gRPC objects. */
static void release_core(struct client_call *call) {
    grpc_call_unref(call->call);
    rpc_channels_drop(call->client->channels, call->channel);
    grpc_byte_buffer_destroy(call->request);
    grpc_byte_buffer_destroy(call->received);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
}

static bool slice_is(grpc_slice slice, const char *text) {
    return grpc_slice_str_cmp(slice, text) == 0;
}

static void copy_slice(char *out, size_t size, grpc_slice slice) {
    size_t len = GRPC_SLICE_LENGTH(slice);
    len = len < size - 1 ? len : size - 1;
    memcpy(out, GRPC_SLICE_START_PTR(slice), len);
    out[len] = 0;
}

static bool find_reason(const struct client_call *call, char *reason, size_t size) {
    for (size_t i = 0; i < call->trailing.count; i++) {
        if (!slice_is(call->trailing.metadata[i].key, "sonde-reason"))
            continue;
        copy_slice(reason, size, call->trailing.metadata[i].value);
        return true;
    }
    return false;
}

/* The core's texts name sockets and deadlines; the error table's sentences help users more. */
static sonde_err outcome_of_core(const struct client_call *call, struct sonde_diag *diag) {
    sonde_err err = sonde_error_from_grpc((int)call->status);
    copy_slice(diag->text, sizeof diag->text, call->details);
    if (call->status == GRPC_STATUS_RESOURCE_EXHAUSTED && strstr(diag->text, "larger than max"))
        err = SONDE_TOO_LARGE;
    if (err == SONDE_UNAVAILABLE || err == SONDE_DEADLINE_EXCEEDED || err == SONDE_CANCELLED)
        diag->text[0] = 0;
    return diag->code = err;
}

static sonde_err outcome(const struct client_call *call, struct sonde_diag *diag) {
    char reason[64];
    if (call->mistake.code) {
        *diag = call->mistake;
        return diag->code;
    }
    if (call->status == GRPC_STATUS_OK)
        return SONDE_OK;
    if (!find_reason(call, reason, sizeof reason))
        return outcome_of_core(call, diag);
    copy_slice(diag->text, sizeof diag->text, call->details);
    return diag->code = sonde_error_from_reason(reason);
}

static ProtobufCMessage *decode(struct client_call *call, grpc_byte_buffer *bytes) {
    grpc_slice slice;
    ProtobufCMessage *message = NULL;
    if (!sonde_message_read(bytes, CLIENT_MAX_MESSAGE_BYTES, &slice, &call->mistake)) {
        message = protobuf_c_message_unpack(call->method->response, NULL, GRPC_SLICE_LENGTH(slice),
                                            GRPC_SLICE_START_PTR(slice));
        grpc_slice_unref(slice);
    }
    if (!message) {
        if (!call->mistake.code)
            (void)sonde_fail(&call->mistake, SONDE_PROTOCOL,
                             "the service's answer is not a valid %s message",
                             call->method->response->name);
        client_call_cancel(call);
    }
    return message;
}

/* Runs the callback of one message; returns whether to read the next one. */
static bool hand_over(struct client_call *call, grpc_byte_buffer *bytes) {
    struct client_chunk *chunk =
        call->callbacks.on_chunk ? client_chunk_take(call->method, &bytes) : NULL;
    if (chunk)
        return call->callbacks.on_chunk(call->context, call, chunk);
    ProtobufCMessage *message = decode(call, bytes);
    grpc_byte_buffer_destroy(bytes);
    if (!message)
        return true;
    bool go_on = call->callbacks.on_message(call->context, call, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return go_on || !is_stream(call->method);
}

/* client_destroy waits for the call until unlink_call, so the client outlives its calls. */
static void end(struct client_call *call) {
    struct sonde_diag diag = {0};
    sonde_err err = outcome(call, &diag);
    call->callbacks.on_end(call->context, err, &diag);
    release_core(call);
    unlink_call(call);
    free_call(call);
}

/* Runs the callbacks that are due; returns whether the call is over. While a receive is running,
 * `received` belongs to the core, which may set it before its tag arrives. */
static bool run(struct client_call *call) {
    pthread_mutex_lock(&call->lock);
    grpc_byte_buffer *bytes = call->is_receiving ? NULL : call->received;
    bool has_sent = call->has_sent;
    if (bytes)
        call->received = NULL;
    call->has_sent = false;
    pthread_mutex_unlock(&call->lock);
    if (has_sent)
        call->on_sent(call->context, call);
    bool go_on = bytes && hand_over(call, bytes);
    pthread_mutex_lock(&call->lock);
    if (go_on)
        receive(call);
    call->is_over = has_end(call);
    call->in_hand = call->is_over;
    bool is_over = call->is_over;
    pthread_mutex_unlock(&call->lock);
    return is_over;
}

static void run_event(struct client_event *event) {
    struct client_call *call = container_of(event, struct client_call, event);
    client_delivered(call->client, &call->is_posted);
    if (run(call))
        end(call);
    else
        advance(call);
}

void client_call_next(struct client_call *call) {
    pthread_mutex_lock(&call->lock);
    receive(call);
    pthread_mutex_unlock(&call->lock);
}

/* Under the call's lock. The empty batch makes the client's thread call advance: the call may be
 * complete now with no other tag on its way. */
static void cancel(struct client_call *call) {
    if (call->is_over || call->is_cancelled)
        return;
    call->is_cancelled = true;
    call->is_waking = true;
    grpc_call_cancel(call->call, NULL);
    batch(call, NULL, 0, &call->wake_tag);
}

void client_call_cancel(struct client_call *call) {
    pthread_mutex_lock(&call->lock);
    cancel(call);
    pthread_mutex_unlock(&call->lock);
}

void client_calls_cancel(struct client *client) {
    for (struct client_call *call = client->calls; call; call = call->next)
        client_call_cancel(call);
}

static grpc_byte_buffer *pack(const ProtobufCMessage *request) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(request));
    protobuf_c_message_pack(request, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

static grpc_byte_buffer *copy(struct sonde_slice packed) {
    grpc_slice slice = grpc_slice_from_copied_buffer(packed.data, packed.len);
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

static struct client_call *create(struct client *client, const struct client_method *method,
                                  uint32_t deadline_ms) {
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    struct client_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    if (deadline_ms)
        deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                gpr_time_from_millis(deadline_ms, GPR_TIMESPAN));
    call->event.run = run_event;
    call->client = client;
    call->method = method;
    call->unary_tag.run = on_answered;
    call->send_tag.run = on_request_sent;
    call->status_tag.run = on_status;
    call->receive_tag.run = on_received;
    call->wake_tag.run = on_wake;
    pthread_mutex_init(&call->lock, NULL);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    call->details = grpc_empty_slice();
    call->channel = rpc_channels_take(client->channels);
    call->call = grpc_channel_create_call(
        call->channel->core, NULL, GRPC_PROPAGATE_DEFAULTS, client_loop_queue(client->loop),
        grpc_slice_from_static_string(method->path), NULL, deadline, NULL);
    return call;
}

/* Metadata, request and half close out; metadata, status and a message in. */
static void fill_ops(struct client_call *call, grpc_op ops[6], grpc_metadata *metadata,
                     size_t metadata_count) {
    memset(ops, 0, 6 * sizeof *ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.count = metadata_count;
    ops[0].data.send_initial_metadata.metadata = metadata;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = call->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[4].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[4].data.recv_status_on_client.status = &call->status;
    ops[4].data.recv_status_on_client.status_details = &call->details;
    ops[5].op = GRPC_OP_RECV_MESSAGE;
    ops[5].data.recv_message.recv_message = &call->received;
}

/* The answer's metadata is received with the status: the service may send it only after the last
 * request. */
static void start_sending(struct client_call *call, grpc_op ops[6]) {
    call->has_closed = !call->on_sent;
    grpc_op ending[2] = {ops[3], ops[4]};
    batch(call, ops, call->has_closed ? 3 : 2, &call->send_tag);
    batch(call, ending, 2, &call->status_tag);
    batch(call, ops + 5, 1, &call->receive_tag);
}

static void start(struct client_call *call, const struct client_caller *caller) {
    grpc_op ops[6];
    grpc_metadata metadata[CLIENT_MAX_METADATA];
    size_t count = client_metadata(call->client, caller, metadata);
    fill_ops(call, ops, metadata, count);
    call->is_sending = call->is_receiving = true;
    if (call->method->sends) {
        start_sending(call, ops);
    } else if (call->method->streaming) {
        batch(call, ops, 4, &call->send_tag);
        batch(call, ops + 4, 1, &call->status_tag);
        batch(call, ops + 5, 1, &call->receive_tag);
    } else {
        batch(call, ops, 6, &call->unary_tag);
    }
    while (count > 0)
        grpc_slice_unref(metadata[--count].value);
}

/* Takes bytes; NULL is the half close. Does nothing once the call is over: on_end reports that. */
static void send(struct client_call *call, grpc_byte_buffer *bytes) {
    grpc_op op = {.op = bytes ? GRPC_OP_SEND_MESSAGE : GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    if (bytes)
        op.data.send_message.send_message = bytes;
    pthread_mutex_lock(&call->lock);
    bool may_send = !call->is_sending && !call->has_closed && !call->has_status &&
                    !call->is_cancelled && !call->is_over;
    if (may_send) {
        grpc_byte_buffer_destroy(call->request);
        call->request = bytes;
        call->is_sending = true;
        call->has_closed = !bytes;
        batch(call, &op, 1, &call->send_tag);
    }
    pthread_mutex_unlock(&call->lock);
    if (!may_send)
        grpc_byte_buffer_destroy(bytes);
}

void client_call_send(struct client_call *call, const ProtobufCMessage *request) {
    send(call, request ? pack(request) : NULL);
}

void client_call_send_packed(struct client_call *call, struct sonde_slice request) {
    send(call, copy(request));
}

/* Adds the call to the client's list; false while the client is being destroyed. */
static bool enlist(struct client_call *call) {
    struct client *client = call->client;
    pthread_mutex_lock(&client->lock);
    bool is_open = !client->is_closing;
    if (is_open) {
        call->next = client->calls;
        call->link = &client->calls;
        if (call->next)
            call->next->link = &call->next;
        client->calls = call;
        client->call_count++;
    }
    pthread_mutex_unlock(&client->lock);
    return is_open;
}

typedef void sent_callback(void *context, struct client_call *call);

/* Takes `request`. caller NULL = the client itself. */
static struct client_call *begin(struct client_call *call, grpc_byte_buffer *request,
                                 const struct client_caller *caller,
                                 const struct client_callbacks *callbacks, sent_callback *on_sent,
                                 void *context) {
    const struct client_caller own = {0};
    if (!call) {
        grpc_byte_buffer_destroy(request);
        return NULL;
    }
    call->callbacks = *callbacks;
    call->on_sent = on_sent;
    call->context = context;
    call->request = request;
    pthread_mutex_lock(&call->lock);
    bool is_open = enlist(call);
    if (is_open)
        start(call, caller ? caller : &own);
    pthread_mutex_unlock(&call->lock);
    if (!is_open) {
        release_core(call);
        free_call(call);
    }
    return is_open ? call : NULL;
}

struct client_call *client_call_start_sending(struct client *client,
                                              const struct client_method *method,
                                              const ProtobufCMessage *request, uint32_t deadline_ms,
                                              const struct client_caller *caller,
                                              const struct client_callbacks *callbacks,
                                              sent_callback *on_sent, void *context) {
    return begin(create(client, method, deadline_ms), pack(request), caller, callbacks, on_sent,
                 context);
}

struct client_call *client_call_start_packed(struct client *client,
                                             const struct client_method *method,
                                             struct sonde_slice first,
                                             const struct client_callbacks *callbacks,
                                             sent_callback *on_sent, void *context) {
    return begin(create(client, method, 0), copy(first), NULL, callbacks, on_sent, context);
}
