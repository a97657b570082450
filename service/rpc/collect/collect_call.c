/* SPDX-License-Identifier: Apache-2.0
 *
 * Collect: requests and answers are independent of each other. An answer is made when the one
 * before has left, so that a slow controller costs no memory here.
 *
 * The session wakes the call from other threads. The call is referenced as long as its link is
 * open, or a message that was posted then is on its way. */
#include "api/base/clock.h"
#include "service/collect/collect.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct collecting {
    struct rpc_call *call;
    struct collect_link *link; /* NULL = closed */
    struct loop_message message;
    _Atomic bool is_posted;
    uint64_t answers, bytes;
};

static void close_link(struct collecting *collecting) {
    if (!collecting->link)
        return;
    collect_close(collecting->link);
    collecting->link = NULL;
    if (!atomic_load(&collecting->is_posted))
        rpc_call_drop(collecting->call);
}

static void end(struct collecting *collecting, sonde_err err, const struct sonde_diag *diag) {
    rpc_finish(collecting->call, err, diag);
    close_link(collecting);
}

static void send_next(struct collecting *collecting) {
    struct sonde_buf answer = {0};
    struct sonde_diag diag = {0};
    bool is_empty = true;
    if (!collecting->link || rpc_call_sending(collecting->call))
        return;
    sonde_err err =
        collect_next(collecting->link, clock_ns(CLOCK_MONOTONIC), &answer, &is_empty, &diag);
    if (!err && !is_empty) {
        collecting->answers++;
        collecting->bytes += answer.len;
        rpc_send_slice(collecting->call, grpc_slice_from_copied_buffer(answer.data, answer.len));
    }
    sonde_buf_finish(&answer);
    if (err)
        end(collecting, err, &diag);
}

static void on_wake(struct loop_message *message) {
    struct collecting *collecting = container_of(message, struct collecting, message);
    atomic_store(&collecting->is_posted, false);
    if (collecting->link)
        send_next(collecting);
    else
        rpc_call_drop(collecting->call);
}

/* Any thread. */
static void wake(void *context) {
    struct collecting *collecting = context;
    if (!atomic_exchange(&collecting->is_posted, true))
        loop_post(rpc_call_server(collecting->call)->loop, &collecting->message);
}

static void on_sent(struct rpc_call *call) {
    send_next(rpc_call_state(call));
}

static void on_gone(struct rpc_call *call) {
    close_link(rpc_call_state(call));
}

static void on_closed(struct rpc_call *call) {
    end(rpc_call_state(call), SONDE_OK, NULL);
}

static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    end(rpc_call_state(call), sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"),
        &diag);
}

static void release(struct rpc_call *call) {
    struct collecting *collecting = rpc_call_state(call);
    rpc_call_note(call, " answers=%llu bytes=%llu", (unsigned long long)collecting->answers,
                  (unsigned long long)collecting->bytes);
    free(collecting);
}

static sonde_err open_link(struct rpc_call *call, const Sonde__V1__CollectRequest *request,
                           struct sonde_diag *diag) {
    static const struct rpc_call_events events = {
        .on_sent = on_sent, .on_gone = on_gone, .on_stop = on_stop, .release = release};
    struct collect *collect = rpc_call_server(call)->collect;
    if (!collect)
        return sonde_fail(
            diag, SONDE_NOT_AVAILABLE,
            "this service does not collect: it was started with --no-collect, or cannot "
            "write its data directory");
    struct collecting *collecting = calloc(1, sizeof *collecting);
    if (!collecting)
        return SONDE_OUT_OF_MEMORY;
    collecting->call = call;
    collecting->message.run = on_wake;
    sonde_err err = collect_open(collect, request, wake, collecting, &collecting->link, diag);
    if (err) {
        free(collecting);
        return err;
    }
    rpc_call_take(call); /* dropped in close_link, or in on_wake after it */
    rpc_call_set(call, &events, collecting);
    rpc_call_on_closed(call, on_closed);
    return SONDE_OK;
}

void rpc_collect(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CollectRequest *request = (const void *)message;
    struct collecting *collecting = rpc_call_state(call);
    struct sonde_diag diag = {0};
    sonde_err err = collecting ? SONDE_OK : open_link(call, request, &diag);
    if (collecting && collecting->link)
        err = collect_receive(collecting->link, request, &diag);
    if (err && collecting)
        end(collecting, err, &diag);
    if (err && !collecting)
        rpc_finish(call, err, &diag);
    if (err)
        return;
    send_next(rpc_call_state(call));
    rpc_receive(call);
}
