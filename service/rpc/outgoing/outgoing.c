/* SPDX-License-Identifier: Apache-2.0
 *
 * A call is one batch of six operations on a channel that is connected. The calling thread awaits
 * its end with grpc_completion_queue_pluck. */
#include "service/rpc/outgoing/outgoing.h"

#include "api/rpc/client/channel.h"
#include "api/rpc/message.h"
#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "service/locks.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/log.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define OPS             6
#define CONNECT_STEP_MS 100
#define CONNECT_STEPS   50 /* at most, for one attempt */
#define RECONNECT_STEPS 10 /* until an attempt after a failed one begins */

struct rpc_outgoing {
    struct rpc_channels *channels;
    grpc_completion_queue *queue;
    grpc_metadata headers[RPC_OUTGOING_MAX_HEADERS]; /* their slices are owned */
    size_t header_count;
    struct lock lock; /* guards what follows */
    grpc_call *running;
    bool is_cancelled;
};

/* One call's results. */
struct call {
    struct rpc_channel *channel;
    grpc_call *core;
    grpc_byte_buffer *request, *response;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice message;
};

/* gRPC's own log is dropped: callers get each error as a status. */
static void on_core_log(gpr_log_func_args *args) {
}

static sonde_err add_headers(struct rpc_outgoing *outgoing,
                             const struct rpc_outgoing_options *options, struct sonde_diag *diag) {
    if (options->header_count > RPC_OUTGOING_MAX_HEADERS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "at most %d headers",
                          RPC_OUTGOING_MAX_HEADERS);
    for (size_t i = 0; i < options->header_count; i++) {
        grpc_metadata *header = &outgoing->headers[outgoing->header_count++];
        header->key = grpc_slice_from_copied_string(options->headers[i].name);
        header->value = grpc_slice_from_copied_string(options->headers[i].value);
        if (!grpc_header_key_is_legal(header->key) ||
            !grpc_header_nonbin_value_is_legal(header->value) || grpc_is_binary_header(header->key))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "header \"%.64s\": gRPC allows neither such a name nor such a value",
                              options->headers[i].name);
    }
    return SONDE_OK;
}

static sonde_err open_channels(struct rpc_outgoing *outgoing,
                               const struct rpc_outgoing_options *options,
                               struct sonde_diag *diag) {
    static const struct rpc_channel_setting settings[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_OUTGOING_MAX_ANSWER},
        {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200},
    };
    const struct tls_files_options files = {.ca_file = options->ca_file,
                                            .cert_file = options->cert_file,
                                            .key_file = options->key_file,
                                            .key_kind = SONDE_FILE_SECRET,
                                            .log = options->log};
    const struct rpc_channels_options channels = {.address = options->address,
                                                  .own_tls = options->is_tls ? &files : NULL,
                                                  .settings = settings,
                                                  .setting_count =
                                                      sizeof settings / sizeof *settings};
    return rpc_channels_create(&channels, &outgoing->channels, diag);
}

/* Signals are blocked meanwhile, so that gRPC's threads inherit the mask. */
sonde_err rpc_outgoing_create(const struct rpc_outgoing_options *options, struct rpc_outgoing **out,
                              struct sonde_diag *diag) {
    struct rpc_outgoing *outgoing = calloc(1, sizeof *outgoing);
    sigset_t all, before;
    *out = NULL;
    if (!outgoing)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    lock_init(&outgoing->lock, LOCK_OUTGOING);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    core_skip_lock_checks();
    grpc_init();
    gpr_set_log_function(on_core_log);
    outgoing->queue = grpc_completion_queue_create_for_pluck(NULL);
    sonde_err err = add_headers(outgoing, options, diag);
    if (!err)
        err = open_channels(outgoing, options, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        rpc_outgoing_destroy(outgoing);
    else
        *out = outgoing;
    return err;
}

void rpc_outgoing_destroy(struct rpc_outgoing *outgoing) {
    if (!outgoing)
        return;
    for (size_t i = 0; i < outgoing->header_count; i++) {
        grpc_slice_unref(outgoing->headers[i].key);
        grpc_slice_unref(outgoing->headers[i].value);
    }
    rpc_channels_destroy(outgoing->channels);
    grpc_completion_queue_shutdown(outgoing->queue);
    grpc_completion_queue_destroy(outgoing->queue);
    grpc_shutdown();
    lock_finish(&outgoing->lock);
    free(outgoing);
}

void rpc_outgoing_cancel(struct rpc_outgoing *outgoing) {
    lock_take(&outgoing->lock);
    outgoing->is_cancelled = true;
    if (outgoing->running)
        grpc_call_cancel(outgoing->running, NULL);
    lock_drop(&outgoing->lock);
}

/* ---- Connecting ---- */

static gpr_timespec after_ms(uint32_t ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static bool is_cancelled(struct rpc_outgoing *outgoing) {
    lock_take(&outgoing->lock);
    bool is = outgoing->is_cancelled;
    lock_drop(&outgoing->lock);
    return is;
}

/* Waits until the channel is connected or an attempt has failed. gRPC only makes progress while a
 * thread waits for the queue, and a call on a channel whose last attempt failed ends at once. */
static void connect(struct rpc_outgoing *outgoing, grpc_channel *core) {
    bool has_tried = false;
    grpc_channel_reset_connect_backoff(core); /* the caller pauses between calls */
    for (int step = 0; step < CONNECT_STEPS && !is_cancelled(outgoing); step++) {
        grpc_connectivity_state state = grpc_channel_check_connectivity_state(core, 1);
        bool has_failed = state == GRPC_CHANNEL_TRANSIENT_FAILURE;
        if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_SHUTDOWN ||
            (has_failed && (has_tried || step > RECONNECT_STEPS)))
            return;
        has_tried = has_tried || !has_failed;
        core_tag_sent(outgoing);
        grpc_channel_watch_connectivity_state(core, state, after_ms(CONNECT_STEP_MS),
                                              outgoing->queue, outgoing);
        (void)grpc_completion_queue_pluck(outgoing->queue, outgoing,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        core_tag_came(outgoing);
    }
}

/* ---- A call ---- */

static void run(struct rpc_outgoing *outgoing, struct call *call) {
    grpc_op ops[OPS] = {0};
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.count = outgoing->header_count;
    ops[0].data.send_initial_metadata.metadata = outgoing->headers;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = call->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &call->response;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->status;
    ops[5].data.recv_status_on_client.status_details = &call->message;
    core_tag_sent(call);
    if (grpc_call_start_batch(call->core, ops, OPS, call, NULL) != GRPC_CALL_OK)
        abort(); /* a bug in this file: the core refuses malformed batches only */
    (void)grpc_completion_queue_pluck(outgoing->queue, call, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                      NULL);
    core_tag_came(call);
}

static void copy_slice(struct sonde_buf *out, grpc_slice slice) {
    out->limit = RPC_OUTGOING_MAX_ANSWER;
    sonde_buf_append(out, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

static void read_response(struct call *call, struct sonde_buf *body) {
    struct sonde_diag diag;
    grpc_slice all;
    if (!call->response || sonde_message_read(call->response, RPC_OUTGOING_MAX_ANSWER, &all, &diag))
        return;
    copy_slice(body, all);
    grpc_slice_unref(all);
}

static void fill_answer(struct call *call, struct rpc_outgoing_answer *answer) {
    size_t len = GRPC_SLICE_LENGTH(call->message);
    answer->status = (int)call->status;
    len = len < sizeof answer->message - 1 ? len : sizeof answer->message - 1;
    memcpy(answer->message, GRPC_SLICE_START_PTR(call->message), len);
    read_response(call, &answer->body);
    for (size_t i = 0; i < call->trailing.count; i++) {
        const grpc_metadata *item = &call->trailing.metadata[i];
        if (grpc_slice_str_cmp(item->key, "grpc-status-details-bin") == 0 && !answer->extra.len)
            copy_slice(&answer->extra, item->value);
    }
}

static void begin(struct rpc_outgoing *outgoing, struct call *call) {
    lock_take(&outgoing->lock);
    outgoing->running = call->core;
    if (outgoing->is_cancelled)
        grpc_call_cancel(call->core, NULL);
    lock_drop(&outgoing->lock);
}

static void end(struct rpc_outgoing *outgoing, struct call *call) {
    lock_take(&outgoing->lock);
    outgoing->running = NULL;
    lock_drop(&outgoing->lock);
    grpc_byte_buffer_destroy(call->request);
    grpc_byte_buffer_destroy(call->response);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->message);
    grpc_call_unref(call->core);
    rpc_channels_drop(outgoing->channels, call->channel);
}

void rpc_outgoing_call(struct rpc_outgoing *outgoing, const char *path, struct sonde_slice request,
                       uint32_t deadline_ms, struct rpc_outgoing_answer *answer) {
    struct call call = {.message = grpc_empty_slice()};
    grpc_slice bytes = grpc_slice_from_copied_buffer(request.data, request.len);
    call.channel = rpc_channels_take(outgoing->channels);
    connect(outgoing, call.channel->core);
    answer->was_connected =
        grpc_channel_check_connectivity_state(call.channel->core, 0) == GRPC_CHANNEL_READY;
    grpc_metadata_array_init(&call.initial);
    grpc_metadata_array_init(&call.trailing);
    call.request = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);
    call.core = grpc_channel_create_call(call.channel->core, NULL, GRPC_PROPAGATE_DEFAULTS,
                                         outgoing->queue, grpc_slice_from_static_string(path), NULL,
                                         after_ms(deadline_ms), NULL);
    begin(outgoing, &call);
    run(outgoing, &call);
    fill_answer(&call, answer);
    end(outgoing, &call);
}
