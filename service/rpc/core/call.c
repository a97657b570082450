/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's batches. Each holds a reference to the call until its tag completes:
 *
 *     close    RECV_CLOSE_ON_SERVER, from the start: completes once and reports a cancellation;
 *              part of the status batch if the handler answers before it returns
 *     receive  RECV_MESSAGE, after the caller was accepted
 *     send     SEND_MESSAGE (the first with SEND_INITIAL_METADATA), one at a time
 *     status   SEND_STATUS_FROM_SERVER, after the last send; also after a cancellation
 */
#include "api/base/clock.h"
#include "api/text/utf8.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/call_state.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct rpc_call_events rpc_no_events;

static void log_call(const struct rpc_call *call) {
    struct rpc_server *server = call->server;
    char line[512];
    if (!server->log || (server->log_switch && !atomic_load(server->log_switch)))
        return;
    double ms = (double)(clock_ns(CLOCK_MONOTONIC) - call->arrived_ns) / 1e6;
    char *peer = grpc_call_get_peer(call->call);
    const char *name = call->method ? strrchr(call->method->path, '/') + 1 : "?";
    snprintf(line, sizeof line, "call=%s peer=%s status=%s ms=%.1f%s", name, peer,
             sonde_error_info(call->end_err)->reason, ms, call->note);
    gpr_free(peer);
    server->log(server->log_context, line);
}

static void destroy(struct rpc_call *call) {
    struct rpc_server *server = call->server;
    if (call->events->release)
        call->events->release(call);
    rpc_audit_write(server, &call->audit, call->end_err);
    log_call(call);
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    grpc_byte_buffer_destroy(call->received);
    grpc_byte_buffer_destroy(call->outgoing);
    grpc_call_unref(call->call);
    sonde_arena_finish(&call->arena);
    free(call);
    rpc_server_call_gone(server);
}

void rpc_call_take(struct rpc_call *call) {
    call->references++;
}

void rpc_call_drop(struct rpc_call *call) {
    if (--call->references == 0)
        destroy(call);
}

/* gRPC refuses a batch only if we made a mistake. That ends this call, not the service. */
static void start(struct rpc_call *call, const grpc_op *ops, size_t count, struct loop_tag *tag) {
    rpc_call_take(call);
    core_tag_sent(tag);
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, tag, NULL);
    if (error == GRPC_CALL_OK)
        return;
    gpr_log(GPR_ERROR, "a batch was refused: %s", grpc_call_error_to_string(error));
    grpc_call_cancel(call->call, NULL);
    call->has_ended = true;
    call->references--; /* the caller's reference */
}

static grpc_op *add_initial_metadata(struct rpc_call *call, grpc_op *op) {
    if (call->has_started_sending)
        return op;
    call->has_started_sending = true;
    op->op = GRPC_OP_SEND_INITIAL_METADATA;
    op->data.send_initial_metadata.maybe_compression_level.is_set =
        call->method && call->method->kind == RPC_DUPLEX;
    op->data.send_initial_metadata.maybe_compression_level.level = GRPC_COMPRESS_LEVEL_HIGH;
    return op + 1;
}

static void unref_all(const grpc_slice *slices, size_t count) {
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(slices[i]);
}

static grpc_op *add_message(struct rpc_call *call, grpc_op *op, grpc_slice *slices, size_t count) {
    grpc_byte_buffer_destroy(call->outgoing);
    call->outgoing = grpc_raw_byte_buffer_create(slices, count);
    unref_all(slices, count);
    op->op = GRPC_OP_SEND_MESSAGE;
    op->data.send_message.send_message = call->outgoing;
    return op + 1;
}

struct status {
    grpc_metadata reason;
    grpc_slice details;
};

static grpc_op *add_status(struct status *status, grpc_op *op, sonde_err err,
                           const struct sonde_diag *diag) {
    const struct sonde_error_info *info = sonde_error_info(err);
    char text[512];
    rpc_text_copy(text, sizeof text, err == SONDE_OK ? "" : sonde_diag_text(diag, err));
    status->reason.key = grpc_slice_from_static_string("sonde-reason");
    status->reason.value = grpc_slice_from_static_string(info->reason);
    status->details = grpc_slice_from_copied_string(text);
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = (grpc_status_code)info->grpc_status;
    op->data.send_status_from_server.status_details = &status->details;
    op->data.send_status_from_server.trailing_metadata_count = err == SONDE_OK ? 0 : 1;
    op->data.send_status_from_server.trailing_metadata = &status->reason;
    return op + 1;
}

static grpc_op *add_close(struct rpc_call *call, grpc_op *op) {
    if (call->is_watched)
        return op;
    call->is_watched = true;
    op->op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op->data.recv_close_on_server.cancelled = &call->cancelled;
    return op + 1;
}

static void send_status(struct rpc_call *call) {
    grpc_op ops[3] = {{0}}, *end = add_initial_metadata(call, ops);
    struct status status = {0};
    end = add_status(&status, end, call->end_err, &call->end_diag);
    end = add_close(call, end);
    call->is_ending = false;
    call->has_ended = true;
    start(call, ops, (size_t)(end - ops), &call->status_tag);
    grpc_slice_unref(status.details);
}

void rpc_finish(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (rpc_call_finished(call))
        return;
    call->end_err = err;
    if (diag)
        call->end_diag = *diag;
    call->is_ending = true;
    if (!call->is_sending)
        send_status(call);
}

void rpc_send_slices(struct rpc_call *call, grpc_slice *slices, size_t count) {
    if (rpc_call_finished(call) || call->is_sending) {
        unref_all(slices, count);
        return;
    }
    if (call->method->kind == RPC_BIDI || call->method->kind == RPC_DUPLEX)
        rpc_audit_write(call->server, &call->audit, SONDE_OK);
    grpc_op ops[2] = {{0}}, *end = add_initial_metadata(call, ops);
    end = add_message(call, end, slices, count);
    call->is_sending = true;
    start(call, ops, (size_t)(end - ops), &call->send_tag);
}

void rpc_send_slice(struct rpc_call *call, grpc_slice slice) {
    rpc_send_slices(call, &slice, 1);
}

void rpc_send(struct rpc_call *call, const ProtobufCMessage *message) {
    rpc_send_slice(call, rpc_pack(message));
}

void rpc_reply_slice(struct rpc_call *call, grpc_slice slice) {
    if (rpc_call_finished(call)) {
        grpc_slice_unref(slice);
        return;
    }
    grpc_op ops[4] = {{0}}, *end = add_initial_metadata(call, ops);
    struct status status = {0};
    end = add_message(call, end, &slice, 1);
    end = add_status(&status, end, SONDE_OK, NULL);
    end = add_close(call, end);
    call->end_err = SONDE_OK;
    call->has_ended = true;
    start(call, ops, (size_t)(end - ops), &call->status_tag);
    grpc_slice_unref(status.details);
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message) {
    rpc_reply_slice(call, rpc_pack(message));
}

static void receive(struct rpc_call *call) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    start(call, &op, 1, &call->receive_tag);
}

static void on_sent(struct loop_tag *tag, bool ok) {
    struct rpc_call *call = container_of(tag, struct rpc_call, send_tag);
    call->is_sending = false;
    grpc_byte_buffer_destroy(call->outgoing);
    call->outgoing = NULL;
    if (call->is_ending)
        send_status(call);
    else if (ok && !call->has_ended && call->events->on_sent)
        call->events->on_sent(call);
    if (ok && !rpc_call_finished(call) && call->method->kind == RPC_BIDI && !call->is_sending)
        receive(call);
    rpc_call_drop(call);
}

static void on_status(struct loop_tag *tag, bool ok) {
    (void)ok;
    rpc_call_drop(container_of(tag, struct rpc_call, status_tag));
}

/* The call was cancelled: by the client, by its deadline or by the service. Stop the work; gRPC
 * still expects a status. */
static void give_up(struct rpc_call *call) {
    if (call->has_ended)
        return;
    rpc_call_take(call);
    if (call->events->on_gone)
        call->events->on_gone(call);
    call->is_ending = false;
    rpc_finish(call, SONDE_CANCELLED, NULL);
    rpc_call_drop(call);
}

static void on_close(struct loop_tag *tag, bool ok) {
    struct rpc_call *call = container_of(tag, struct rpc_call, close_tag);
    (void)ok;
    if (call->cancelled)
        give_up(call);
    rpc_call_drop(call);
}

static void watch(struct rpc_call *call) {
    grpc_op op = {0};
    if (add_close(call, &op) != &op)
        start(call, &op, 1, &call->close_tag);
}

void rpc_receive(struct rpc_call *call) {
    if (!rpc_call_finished(call))
        receive(call);
}

static void on_last(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    if (!rpc_call_finished(call) && call->on_closed)
        call->on_closed(call);
    else if (call->method->kind != RPC_BIDI) /* the client sent no message */
        rpc_finish(call,
                   sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                              "the request message is missing, or larger than %u bytes",
                              RPC_MAX_REQUEST_BYTES),
                   &diag);
    else
        rpc_finish(call, SONDE_OK, NULL);
}

/* A shutdown does not wait for a message that may never come. */
static void stop_waiting(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    rpc_finish(call, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
}

static const struct rpc_call_events waiting_events = {.on_stop = stop_waiting};

/* While the one request of a call is awaited, the receive reports that the client has gone. */
static void wait_for_request(struct rpc_call *call) {
    call->events = &waiting_events;
    receive(call);
    if (rpc_has_many_requests(call->method))
        watch(call);
}

/* A method with many requests has its limits checked at the arrival. */
static sonde_err check_request(struct rpc_call *call, ProtobufCMessage *request,
                               struct sonde_diag *diag) {
    if (rpc_has_many_requests(call->method))
        return SONDE_OK;
    return rpc_caller_limit(&call->caller, call->server->engine, call->method, request,
                            &call->arena, diag);
}

/* A message; NULL = the client has sent its last one. */
static void on_received(struct loop_tag *tag, bool ok) {
    struct rpc_call *call = container_of(tag, struct rpc_call, receive_tag);
    struct sonde_diag diag = {0};
    ProtobufCMessage *request = NULL;
    if (call->events == &waiting_events)
        call->events = &rpc_no_events;
    if (!ok || !call->received) {
        on_last(call);
    } else if (!rpc_call_finished(call)) {
        sonde_arena_finish(&call->arena);
        sonde_err err =
            rpc_decode(call->received, call->method->request, &call->arena, &request, &diag);
        grpc_byte_buffer_destroy(call->received);
        call->received = NULL;
        rpc_audit_request(&call->audit, request);
        if (!err)
            err = check_request(call, request, &diag);
        if (err)
            rpc_finish(call, err, &diag);
        else
            call->method->start(call, request);
    }
    watch(call);
    rpc_call_drop(call);
}

static struct rpc_call *call_create(struct rpc_server *server, const struct rpc_method *method,
                                    grpc_call *core) {
    struct rpc_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->server = server;
    call->method = method;
    call->call = core;
    call->references = 1;
    call->events = &rpc_no_events;
    call->audit = (struct rpc_audit){
        .method = method, .caller = &call->caller, .note = call->note, .core = core};
    call->close_tag.run = on_close;
    call->receive_tag.run = on_received;
    call->send_tag.run = on_sent;
    call->status_tag.run = on_status;
    call->arrived_ns = clock_ns(CLOCK_MONOTONIC);
    call->next = server->calls;
    call->link = &server->calls;
    if (call->next)
        call->next->link = &call->next;
    server->calls = call;
    server->call_count++;
    return call;
}

static void read_peer(struct rpc_call *call) {
    char *peer = grpc_call_get_peer(call->call);
    char *port = peer && strncmp(peer, "ipv", 3) == 0 ? strrchr(peer, ':') : NULL;
    int len = port ? (int)(port - peer) : peer ? (int)strlen(peer) : 0;
    snprintf(call->peer, sizeof call->peer, "%.*s", len, peer ? peer : "");
    gpr_free(peer);
}

static sonde_err admit_one_more(const struct rpc_call *call, struct sonde_diag *diag) {
    uint32_t all = call->server->call_count;
    if (all > RPC_MAX_CALLS)
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES, "%u calls are running; the limit is %u",
                          RPC_MAX_CALLS, RPC_MAX_CALLS);
    if (all > RPC_CALLS_OF_CALLER && rpc_call_siblings(call, true) > RPC_CALLS_OF_CALLER)
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                          "%u calls of this caller are running, its limit", RPC_CALLS_OF_CALLER);
    return SONDE_OK;
}

static sonde_err admit(struct rpc_call *call, struct rpc_arrival *arrival,
                       struct sonde_diag *diag) {
    rpc_audit_metadata(&call->audit, &arrival->metadata);
    sonde_err err = rpc_access_certificate(call->server, call->call, diag);
    if (!err && !call->method)
        err = SONDE_UNIMPLEMENTED;
    if (!err)
        err = rpc_access(call->server, call->call, &arrival->metadata, call->method, &call->caller,
                         diag);
    if (err)
        return err;
    if (call->server->stopping)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is stopping");
    read_peer(call);
    err = admit_one_more(call, diag);
    if (err || !rpc_has_many_requests(call->method))
        return err;
    return rpc_caller_limit(&call->caller, call->server->engine, call->method, NULL, &call->arena,
                            diag);
}

void rpc_call_begin(struct rpc_server *server, const struct rpc_method *method,
                    struct rpc_arrival *arrival) {
    struct rpc_call *call = call_create(server, method, arrival->call);
    struct sonde_diag diag = {0};
    if (!call) {
        grpc_call_cancel_with_status(arrival->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory",
                                     NULL);
        grpc_call_unref(arrival->call);
    } else {
        call->deadline_ns = arrival->deadline_ns;
        sonde_err err = admit(call, arrival, &diag);
        if (err)
            rpc_finish(call, err, &diag);
        else
            wait_for_request(call);
        rpc_call_drop(call);
    }
    grpc_metadata_array_destroy(&arrival->metadata);
}

grpc_slice rpc_pack(const ProtobufCMessage *message) {
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    return slice;
}
