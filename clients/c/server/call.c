/* SPDX-License-Identifier: Apache-2.0
 *
 * A call ends when its `close` batch has completed, whoever ended it; from then on no batch is
 * started. It is freed when none is under way any more. */
#include "api/rpc/message.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "clients/c/server/server_state.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct server_call {
    struct server *server;
    const struct server_method *method; /* NULL = refused */
    struct tag tags[TAG_KINDS];
    grpc_call *core;
    grpc_call_details details;
    grpc_metadata_array metadata;
    char *authority, *peer;
    void *state;
    bool has_started; /* on_start has run */
    int cancelled;
    grpc_byte_buffer *received;
    /* Under the server's lock. */
    bool is_closed, is_sending, is_finished;
    unsigned pending; /* batches under way */
    sonde_err end;    /* how, once is_finished */
    char end_text[320];
};

static void lock(struct server_call *call) {
    pthread_mutex_lock(&call->server->lock);
}

static void unlock(struct server_call *call) {
    pthread_mutex_unlock(&call->server->lock);
}

/* ---- Batches, under the lock ---- */

static void start(struct server_call *call, enum tag_kind kind, const grpc_op *ops, size_t count) {
    call->pending++;
    core_tag_sent(&call->tags[kind]);
    if (grpc_call_start_batch(call->core, ops, count, &call->tags[kind], NULL) != GRPC_CALL_OK)
        abort(); /* a bug in this file: the core refuses malformed batches only */
}

static void start_status(struct server_call *call) {
    const struct sonde_error_info *info = sonde_error_info(call->end);
    grpc_metadata reason = {.key = grpc_slice_from_static_string("sonde-reason"),
                            .value = grpc_slice_from_static_string(info->reason)};
    grpc_slice text = grpc_slice_from_copied_string(call->end_text);
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = (grpc_status_code)info->grpc_status;
    op.data.send_status_from_server.status_details = &text;
    op.data.send_status_from_server.trailing_metadata_count = call->end ? 1 : 0;
    op.data.send_status_from_server.trailing_metadata = &reason;
    start(call, TAG_STATUS, &op, 1);
    grpc_slice_unref(text);
}

static void finish(struct server_call *call, sonde_err err, const char *text) {
    if (call->is_finished || call->is_closed)
        return;
    call->is_finished = true;
    call->end = err;
    snprintf(call->end_text, sizeof call->end_text, "%s", text);
    if (!call->is_sending)
        start_status(call);
}

void server_finish(struct server_call *call, sonde_err err, const char *text) {
    lock(call);
    finish(call, err, text);
    unlock(call);
}

void server_cancel(struct server_call *call) {
    lock(call);
    if (!call->is_closed)
        grpc_call_cancel(call->core, NULL);
    unlock(call);
}

void server_next(struct server_call *call) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    lock(call);
    if (!call->is_finished && !call->is_closed)
        start(call, TAG_READ, &op, 1);
    unlock(call);
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

void server_send(struct server_call *call, const ProtobufCMessage *message) {
    grpc_byte_buffer *bytes = pack(message);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = bytes;
    lock(call);
    if (!call->is_finished && !call->is_closed) {
        call->is_sending = true;
        start(call, TAG_SENT, &op, 1);
    }
    unlock(call);
    grpc_byte_buffer_destroy(bytes);
}

void server_reply(struct server_call *call, const ProtobufCMessage *message) {
    server_send(call, message);
    server_finish(call, SONDE_OK, "");
}

void server_call_set(struct server_call *call, void *state) {
    call->state = state;
}

const char *server_call_authority(const struct server_call *call) {
    return call->authority;
}

const char *server_call_peer(const struct server_call *call) {
    return call->peer;
}

/* ---- Arrivals ---- */

void server_accept(struct server *server) {
    struct server_call *call = calloc(1, sizeof *call);
    if (!call)
        return; /* the next call that ends tries again */
    call->server = server;
    for (int kind = 0; kind < TAG_KINDS; kind++)
        call->tags[kind] = (struct tag){call, (enum tag_kind)kind};
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    core_tag_sent(&call->tags[TAG_ARRIVAL]);
    if (grpc_server_request_call(server->core, &call->core, &call->details, &call->metadata,
                                 server->queue, server->queue,
                                 &call->tags[TAG_ARRIVAL]) != GRPC_CALL_OK)
        abort();
}

static void free_call(struct server_call *call) {
    if (call->core)
        grpc_call_unref(call->core);
    grpc_byte_buffer_destroy(call->received);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    gpr_free(call->authority);
    gpr_free(call->peer);
    free(call);
}

static const struct server_method *find_method(const struct server *server, grpc_slice path) {
    for (size_t i = 0; i < server->options.method_count; i++)
        if (grpc_slice_str_cmp(path, server->options.methods[i].path) == 0)
            return &server->options.methods[i];
    return NULL;
}

static sonde_err check(struct server_call *call, struct sonde_diag *diag) {
    struct server *server = call->server;
    const struct server_method *method = find_method(server, call->details.method);
    if (!method)
        return sonde_fail(diag, SONDE_UNIMPLEMENTED, "there is no such method here");
    if (server->call_count > SERVER_MAX_CALLS)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "at most %d calls at a time; try again later",
                          SERVER_MAX_CALLS);
    sonde_err err = server_access(server, call->peer, &call->metadata, method, diag);
    if (!err)
        call->method = method;
    return err;
}

/* Reads the first request, and waits for the end. */
static void begin(struct server_call *call) {
    struct sonde_diag diag = {0};
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    grpc_op metadata = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    close.data.recv_close_on_server.cancelled = &call->cancelled;
    metadata.data.send_initial_metadata.maybe_compression_level.is_set = true;
    metadata.data.send_initial_metadata.maybe_compression_level.level = GRPC_COMPRESS_LEVEL_HIGH;
    call->server->call_count++;
    call->authority = grpc_slice_to_c_string(call->details.host);
    call->peer = grpc_call_get_peer(call->core);
    lock(call);
    start(call, TAG_CLOSE, &close, 1);
    start(call, TAG_BEGIN, &metadata, 1);
    unlock(call);
    sonde_err err = check(call, &diag);
    if (err)
        server_finish(call, err, sonde_diag_text(&diag, err));
    else
        server_next(call);
}

/* ---- Messages ---- */

static void deliver(struct server_call *call, const ProtobufCMessage *message) {
    if (call->has_started && call->state) {
        call->method->on_message(call->state, message);
    } else if (!call->has_started) {
        call->has_started = true;
        call->method->on_start(call->server->options.context, call, message);
    }
}

static ProtobufCMessage *unpack(const struct server_method *method, grpc_byte_buffer *bytes,
                                struct sonde_diag *diag) {
    grpc_slice all;
    if (sonde_message_read(bytes, SERVER_MAX_REQUEST, &all, diag))
        return NULL;
    ProtobufCMessage *message = protobuf_c_message_unpack(
        method->request, NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
    grpc_slice_unref(all);
    if (!message)
        (void)sonde_fail(diag, SONDE_PROTOCOL, "the request cannot be decoded");
    return message;
}

static bool goes_on(struct server_call *call) {
    lock(call);
    bool does = !call->is_finished && !call->is_closed;
    unlock(call);
    return does;
}

static void on_read(struct server_call *call) {
    grpc_byte_buffer *bytes = call->received;
    call->received = NULL;
    if (!bytes) {
        if (!call->has_started)
            server_finish(call, SONDE_INVALID_ARGUMENT, "there is no request");
        else if (goes_on(call))
            deliver(call, NULL);
        return;
    }
    struct sonde_diag diag = {0};
    ProtobufCMessage *message = unpack(call->method, bytes, &diag);
    grpc_byte_buffer_destroy(bytes);
    if (!message)
        server_finish(call, diag.code, diag.text);
    else if (goes_on(call))
        deliver(call, message);
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

static void on_sent(struct server_call *call) {
    lock(call);
    call->is_sending = false;
    if (call->is_finished && !call->is_closed)
        start_status(call);
    unlock(call);
    if (call->state && call->method->on_sent)
        call->method->on_sent(call->state);
}

static void run_batch(struct server_call *call, enum tag_kind kind) {
    lock(call);
    call->pending--;
    call->is_closed = call->is_closed || kind == TAG_CLOSE;
    unlock(call);
    if (kind == TAG_READ)
        on_read(call);
    if (kind == TAG_SENT)
        on_sent(call);
    lock(call);
    bool is_over = call->is_closed && call->pending == 0;
    unlock(call);
    if (!is_over)
        return;
    if (call->state)
        call->method->on_end(call->state);
    call->server->call_count--;
    free_call(call);
}

void server_run_tag(struct server *server, struct tag *tag, bool ok) {
    if (tag->kind != TAG_ARRIVAL) {
        run_batch(tag->call, tag->kind);
    } else if (ok) {
        server_accept(server);
        begin(tag->call);
    } else {
        free_call(tag->call);
    }
}
