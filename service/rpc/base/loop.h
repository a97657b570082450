/* SPDX-License-Identifier: Apache-2.0
 *
 * An event loop over one gRPC completion queue: tags, messages from other threads, timers.
 *
 * The C core has neither alarms nor a way to post to a queue. Timers work by passing the earliest
 * one as the deadline of grpc_completion_queue_next. To wake the queue from another thread, an
 * empty batch is started on a call of a channel that cannot connect; it completes at once.
 *
 * Thread safety: loop_post from any thread, everything else on the loop's thread. */
#ifndef SONDE_SERVICE_RPC_BASE_LOOP_H
#define SONDE_SERVICE_RPC_BASE_LOOP_H

#include "api/base/container_of.h"
#include "api/error.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;

/* The tag of a batch, embedded in the caller's struct. */
struct loop_tag {
    void (*run)(struct loop_tag *tag, bool ok);
};

struct loop_message {
    void (*run)(struct loop_message *message);
    struct loop_message *next;
};

/* Zeroed = not set. */
struct loop_timer {
    void (*run)(struct loop_timer *timer);
    int64_t due_ns;
    struct loop_timer *next;
    bool is_set;
};

SONDE_MUST_USE sonde_err loop_create(struct loop **loop, struct sonde_diag *diag);
/* After loop_run returned. */
void loop_destroy(struct loop *loop);

grpc_completion_queue *loop_queue(struct loop *loop);

/* Runs until loop_close has been called and every tag has completed. */
void loop_run(struct loop *loop);
void loop_close(struct loop *loop);

/* Runs message->run on the loop, in posting order. Not after loop_close. */
void loop_post(struct loop *loop, struct loop_message *message);

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer);

#endif
