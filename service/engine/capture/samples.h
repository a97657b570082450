/* SPDX-License-Identifier: Apache-2.0
 *
 * What a source delivers: an amount of an event, such as CPU time, that a thread has spent, with or
 * without a stack. It is counted in each capture of the target, which takes its share. Thread
 * safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_SAMPLES_H
#define SONDE_SERVICE_ENGINE_CAPTURE_SAMPLES_H

#include "service/engine/capture/cpu_capture.h"

struct spent {
    uint32_t tid;
    enum sonde_event_id event; /* never WALL, which counts both kinds of time */
    uint64_t amount;           /* in the event's unit; of GROWTH, page faults */
    uint64_t address;          /* GROWTH: of the page */
    /* The amount is spread over so much time up to end_ns, or, if it is a time, at least over
     * itself. */
    uint64_t span_ns;
    /* To a capture that began then or later, the amount is this; 0 = no other one. */
    uint64_t renewed_amount, renewed_ns;
    uint64_t end_ns; /* on the monotonic clock; 0 = not known: the amount counts in full */
    double waits;    /* OFF_CPU: how many waits begin in it; -1 = not known */
    uint64_t at_ns;  /* when it was recorded, for the timeline */
    bool has_stack;  /* false: a note explains why there is none */
    enum stack_end end;
    bool is_forgotten; /* the mappings of that moment are no longer known */
    /* Adds the stack and the thread to target->stacks. Called only if a capture counts the amount;
     * again if the table was full and is replaced by an empty one. */
    struct count_key (*key)(void *context, struct target *target);
    void *context;
};

/* An empty stack table for the target; NULL when there is no memory for it. */
struct stacks *samples_new_stacks(const struct target *target);
void samples_add(struct target *target, const struct spent *time);
/* If only recordings run and the stack table has grown large, starts an empty one. A recording
 * never ends, and without this its table would grow to its limit. */
void samples_trim_stacks(struct target *target);

#endif
