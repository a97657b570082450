/* SPDX-License-Identifier: Apache-2.0
 *
 * A completion queue as an event loop: tags, messages from other threads, timers.
 *
 * gRPC's C core gives no alarm and no way to post, and needs neither: the next timer is the
 * deadline of grpc_completion_queue_next, and an empty batch on a call that goes nowhere completes
 * at once, which wakes the queue from any thread.
 *
 * Thread safety: everything on the loop's thread, only loop_post from any thread. */
#ifndef SONDE_SERVICE_RPC_CORE_LOOP_H
#define SONDE_SERVICE_RPC_CORE_LOOP_H

#include "api/error.h"

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;

/* What a batch carries; embedded in the caller's struct. */
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

/* Runs until loop_close was called and every tag has come out. */
void loop_run(struct loop *loop);
void loop_close(struct loop *loop);

/* Runs message->run on the loop, in the order of posting. Not after loop_close. */
void loop_post(struct loop *loop, struct loop_message *message);

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer);

#define loop_owner(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

#endif
