/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/loop.h"

#include "api/base/clock.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "service/locks.h"

#include <stdlib.h>
#include <time.h>

struct loop {
    grpc_completion_queue *queue;
    grpc_channel
        *nowhere; /* a channel that cannot connect; its call only serves to wake the queue */
    grpc_call *waker;
    struct loop_tag wake;
    struct lock lock; /* guards first, last, woken */
    struct loop_message *first, **last;
    bool woken;
    struct loop_timer *timers; /* earliest first */
};

static struct loop_message *take_messages(struct loop *loop) {
    lock_take(&loop->lock);
    struct loop_message *first = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    loop->woken = false;
    lock_drop(&loop->lock);
    return first;
}

static void on_wake(struct loop_tag *tag, bool ok) {
    struct loop *loop = container_of(tag, struct loop, wake);
    (void)ok;
    for (struct loop_message *message = take_messages(loop), *next; message; message = next) {
        next = message->next;
        message->run(message);
    }
}

sonde_err loop_create(struct loop **out, struct sonde_diag *diag) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the event loop");
    lock_init(&loop->lock, LOCK_RPC_LOOP);
    loop->last = &loop->first;
    loop->wake.run = on_wake;
    loop->queue = grpc_completion_queue_create_for_next(NULL);
    loop->nowhere = grpc_lame_client_channel_create("nowhere", GRPC_STATUS_UNAVAILABLE, "nowhere");
    loop->waker = grpc_channel_create_call(loop->nowhere, NULL, GRPC_PROPAGATE_DEFAULTS,
                                           loop->queue, grpc_slice_from_static_string("/wake"),
                                           NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    *out = loop;
    return SONDE_OK;
}

void loop_destroy(struct loop *loop) {
    if (!loop)
        return;
    grpc_call_unref(loop->waker);
    grpc_channel_destroy(loop->nowhere);
    grpc_completion_queue_destroy(loop->queue);
    lock_finish(&loop->lock);
    free(loop);
}

grpc_completion_queue *loop_queue(struct loop *loop) {
    return loop->queue;
}

void loop_post(struct loop *loop, struct loop_message *message) {
    message->next = NULL;
    lock_take(&loop->lock);
    *loop->last = message;
    loop->last = &message->next;
    if (!loop->woken) {
        loop->woken = true;
        core_tag_sent(&loop->wake);
        grpc_call_start_batch(loop->waker, NULL, 0, &loop->wake, NULL);
    }
    lock_drop(&loop->lock);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms) {
    loop_timer_clear(loop, timer);
    timer->due_ns = clock_ns(CLOCK_MONOTONIC) + (int64_t)delay_ms * 1000000;
    timer->is_set = true;
    struct loop_timer **at = &loop->timers;
    while (*at && (*at)->due_ns <= timer->due_ns)
        at = &(*at)->next;
    timer->next = *at;
    *at = timer;
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer) {
    for (struct loop_timer **at = &loop->timers; *at; at = &(*at)->next) {
        if (*at == timer) {
            *at = timer->next;
            break;
        }
    }
    timer->is_set = false;
}

static gpr_timespec next_deadline(const struct loop *loop) {
    if (!loop->timers)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    int64_t wait_ns = loop->timers->due_ns - clock_ns(CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(wait_ns > 0 ? wait_ns : 0, GPR_TIMESPAN));
}

static void run_timers(struct loop *loop) {
    while (loop->timers && loop->timers->due_ns <= clock_ns(CLOCK_MONOTONIC)) {
        struct loop_timer *timer = loop->timers;
        loop_timer_clear(loop, timer);
        timer->run(timer);
    }
}

void loop_run(struct loop *loop) {
    for (;;) {
        grpc_event event = grpc_completion_queue_next(loop->queue, next_deadline(loop), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        if (event.type == GRPC_OP_COMPLETE) {
            struct loop_tag *tag = event.tag;
            core_tag_came(tag);
            tag->run(tag, event.success != 0);
        }
        run_timers(loop);
    }
}

void loop_close(struct loop *loop) {
    grpc_completion_queue_shutdown(loop->queue);
}
