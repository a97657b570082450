/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick stream that all captures of a target share. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_CLOCK_H
#define SONDE_SERVICE_ENGINE_CAPTURE_CLOCK_H

#include "service/engine/core/target.h"

/* Whether all captures are recordings. When their clock starts, they also get what the process used
 * before, since they cover its whole life. */
bool clock_is_for_recordings(const struct target *target);
/* Asks the source for the periods that the captures need now, if they have changed. */
void clock_adjust(struct target *target);
/* What a source says when it was asked for periods. */
struct clock_answer {
    uint32_t sequence; /* of the request */
    bool is_running;
    const char *clock, *note; /* "" = none */
    int os_error;             /* not running: why; 0 = it was asked to stop */
    uint32_t threads;         /* 0 = not known */
};
void clock_on_answer(struct target *target, const struct clock_answer *answer);
/* Fails the captures that wait for the clock, and ends the others with what they have. */
void clock_fail(struct target *target, sonde_err err, const char *text);
/* No further records will arrive: drains the rings and concludes the captures. */
void clock_stopped(struct target *target);
void clock_tick(struct target *target, uint64_t now_ns);
/* Asks for the same periods again. Before the source answers, it records what it knows of blocked
 * threads. */
void clock_request_flush(struct target *target);

#endif
