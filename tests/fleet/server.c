/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/server.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 1000 /* that one server_run runs */

/* What a completed event belongs to. A call has one tag for each batch that can be under way. */
enum tag_kind { TAG_ARRIVAL, TAG_BEGIN, TAG_CLOSE, TAG_READ, TAG_SENT, TAG_STATUS, TAG_KINDS };

struct tag {
    struct server_call *call;
    enum tag_kind kind;
};

struct server_call {
    struct server *server;
    struct server_call *next, **at; /* of the server */
    struct tag tags[TAG_KINDS];
    grpc_call *core;
    grpc_call_details details;
    grpc_metadata_array metadata;
    char *authority;
    void *state;
    bool has_state, is_closed, is_sending, is_finished;
    int cancelled;
    unsigned pending; /* batches under way */
    grpc_byte_buffer *received;
    sonde_err end; /* how, once is_finished */
    char end_text[300];
};

struct server {
    const struct server_method *method;
    void *context;
    grpc_completion_queue *queue;
    grpc_server *core;
    struct server_call *calls;
    bool is_stopping;
    int port;
};

/* ---- Batches ---- */

static void start(struct server_call *call, enum tag_kind kind, const grpc_op *ops, size_t count) {
    call->pending++;
    if (grpc_call_start_batch(call->core, ops, count, &call->tags[kind], NULL) != GRPC_CALL_OK)
        abort();
}

static void start_status(struct server_call *call) {
    static const struct {
        sonde_err err;
        grpc_status_code code;
    } codes[] = {
        {SONDE_OK, GRPC_STATUS_OK},
        {SONDE_INVALID_ARGUMENT, GRPC_STATUS_INVALID_ARGUMENT},
        {SONDE_PROTOCOL, GRPC_STATUS_INVALID_ARGUMENT},
        {SONDE_SESSION_BUSY, GRPC_STATUS_ABORTED},
        {SONDE_UNAVAILABLE, GRPC_STATUS_UNAVAILABLE},
    };
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    grpc_slice text = grpc_slice_from_copied_string(call->end_text);
    op.data.send_status_from_server.status = GRPC_STATUS_INTERNAL;
    op.data.send_status_from_server.status_details = &text;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].err == call->end)
            op.data.send_status_from_server.status = codes[i].code;
    start(call, TAG_STATUS, &op, 1);
    grpc_slice_unref(text);
}

void server_finish(struct server_call *call, sonde_err err, const char *text) {
    if (call->is_finished || call->is_closed)
        return;
    call->is_finished = true;
    call->end = err;
    snprintf(call->end_text, sizeof call->end_text, "%s", text);
    if (!call->is_sending)
        start_status(call);
}

void server_next(struct server_call *call) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    if (call->is_finished || call->is_closed)
        return;
    op.data.recv_message.recv_message = &call->received;
    start(call, TAG_READ, &op, 1);
}

void server_send(struct server_call *call, const ProtobufCMessage *message) {
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    if (call->is_finished || call->is_closed)
        return;
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    op.data.send_message.send_message = grpc_raw_byte_buffer_create(&slice, 1);
    call->is_sending = true;
    start(call, TAG_SENT, &op, 1);
    grpc_byte_buffer_destroy(op.data.send_message.send_message);
    grpc_slice_unref(slice);
}

/* ---- Calls ---- */

static void accept_next(struct server *server) {
    struct server_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->server = server;
    for (int kind = 0; kind < TAG_KINDS; kind++)
        call->tags[kind] = (struct tag){call, kind};
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    if (grpc_server_request_call(server->core, &call->core, &call->details, &call->metadata,
                                 server->queue, server->queue,
                                 &call->tags[TAG_ARRIVAL]) != GRPC_CALL_OK)
        abort();
}

static void free_call(struct server_call *call) {
    if (call->at)
        *call->at = call->next;
    if (call->at && call->next)
        call->next->at = call->at;
    if (call->core)
        grpc_call_unref(call->core);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    gpr_free(call->authority);
    free(call);
}

/* Reads the first request, and waits for the end, whoever ends the call. */
static void begin(struct server_call *call) {
    struct server *server = call->server;
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    grpc_op metadata = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    call->next = server->calls;
    call->at = &server->calls;
    if (call->next)
        call->next->at = &call->next;
    server->calls = call;
    call->authority = grpc_slice_to_c_string(call->details.host);
    close.data.recv_close_on_server.cancelled = &call->cancelled;
    start(call, TAG_CLOSE, &close, 1);
    metadata.data.send_initial_metadata.maybe_compression_level.is_set = true;
    metadata.data.send_initial_metadata.maybe_compression_level.level = GRPC_COMPRESS_LEVEL_HIGH;
    start(call, TAG_BEGIN, &metadata, 1);
    if (grpc_slice_str_cmp(call->details.method, server->method->path) == 0)
        server_next(call);
    else
        server_finish(call, SONDE_INVALID_ARGUMENT, "unknown method");
}

static void deliver(struct server_call *call, const ProtobufCMessage *message) {
    const struct server_method *method = call->server->method;
    if (call->has_state) {
        method->on_message(call->state, message);
        return;
    }
    call->has_state = true;
    method->on_start(call->server->context, call, message);
}

static ProtobufCMessage *unpack(const struct server_method *method, grpc_byte_buffer *bytes) {
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, bytes))
        return NULL;
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    ProtobufCMessage *message = protobuf_c_message_unpack(
        method->request, NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    return message;
}

static void on_read(struct server_call *call) {
    grpc_byte_buffer *bytes = call->received;
    call->received = NULL;
    if (!bytes) {
        if (call->has_state && !call->is_closed)
            deliver(call, NULL);
        else
            server_finish(call, SONDE_INVALID_ARGUMENT, "there is no request");
        return;
    }
    ProtobufCMessage *message = unpack(call->server->method, bytes);
    grpc_byte_buffer_destroy(bytes);
    if (!message) {
        server_finish(call, SONDE_INVALID_ARGUMENT, "the request cannot be decoded");
        return;
    }
    if (!call->is_finished)
        deliver(call, message);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void on_sent(struct server_call *call) {
    call->is_sending = false;
    if (call->is_finished && !call->is_closed)
        start_status(call);
    if (call->has_state)
        call->server->method->on_sent(call->state);
}

static void run_batch(struct tag *tag) {
    struct server_call *call = tag->call;
    call->pending--;
    if (tag->kind == TAG_CLOSE)
        call->is_closed = true;
    if (tag->kind == TAG_READ)
        on_read(call);
    if (tag->kind == TAG_SENT)
        on_sent(call);
    if (call->pending > 0 || !call->is_closed)
        return;
    if (call->has_state)
        call->server->method->on_end(call->state);
    free_call(call);
}

static void run_event(struct server *server, const grpc_event *event) {
    struct tag *tag = event->tag;
    if (tag->kind != TAG_ARRIVAL) {
        run_batch(tag);
    } else if (event->success) {
        accept_next(server);
        begin(tag->call);
    } else {
        free_call(tag->call);
    }
}

/* ---- The server ---- */

struct server *server_create(const struct server_method *method, void *context) {
    grpc_arg list[] = {
        {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS},
        {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_HTTP2_MAX_PING_STRIKES},
    };
    const grpc_channel_args args = {sizeof list / sizeof list[0], list};
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        abort();
    list[0].value.integer = 1;
    list[1].value.integer = 0;
    grpc_init();
    server->method = method;
    server->context = context;
    server->queue = grpc_completion_queue_create_for_next(NULL);
    server->core = grpc_server_create(&args, NULL);
    grpc_server_register_completion_queue(server->core, server->queue, NULL);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    server->port = grpc_server_add_http2_port(server->core, "0.0.0.0:0", plain);
    grpc_server_credentials_release(plain);
    if (server->port <= 0)
        abort();
    grpc_server_start(server->core);
    accept_next(server);
    return server;
}

int server_port(const struct server *server) {
    return server->port;
}

static gpr_timespec after(int wait_ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(wait_ms, GPR_TIMESPAN));
}

void server_run(struct server *server, int wait_ms) {
    for (int i = 0; i < MAX_EVENTS; i++) {
        grpc_event event =
            grpc_completion_queue_next(server->queue, after(i == 0 ? wait_ms : 0), NULL);
        if (event.type != GRPC_OP_COMPLETE)
            return;
        run_event(server, &event);
    }
}

/* After the shutdown's own event, no other will come. */
static void drain(struct server *server, const struct tag *last) {
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        if (event.tag == last)
            grpc_completion_queue_shutdown(server->queue);
        else if (((struct tag *)event.tag)->kind != TAG_ARRIVAL)
            run_batch(event.tag);
        else
            free_call(((struct tag *)event.tag)->call);
    }
}

void server_destroy(struct server *server) {
    struct tag last = {NULL, TAG_KINDS};
    grpc_server_shutdown_and_notify(server->core, server->queue, &last);
    grpc_server_cancel_all_calls(server->core);
    drain(server, &last);
    grpc_server_destroy(server->core);
    grpc_completion_queue_destroy(server->queue);
    grpc_shutdown();
    free(server);
}

void server_call_set(struct server_call *call, void *state) {
    call->state = state;
}

const char *server_call_authority(const struct server_call *call) {
    return call->authority;
}
