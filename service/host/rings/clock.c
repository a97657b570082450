/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/clock.h"

/* A clock that starts has not counted the time before, and will not count the time after its last
 * sample when it is stopped. On average that is half a period, of the one at its first sample. */
void cpu_clock_restart(struct cpu_clock *clock, uint64_t now_ns, uint64_t period_ns,
                       bool is_first) {
    uint64_t ran_ns = now_ns - clock->start_ns, former_ns = clock->period_ns;
    clock->is_fresh = is_first || (clock->is_fresh && ran_ns < former_ns);
    if (is_first)
        clock->rest_ns = period_ns / 2;
    else if (clock->is_fresh)
        clock->rest_ns = clock->rest_ns - former_ns / 2 + ran_ns + period_ns / 2;
    else
        clock->rest_ns = (ran_ns < former_ns ? clock->rest_ns : 0) + ran_ns % former_ns;
    clock->former_period_ns = clock->period_ns;
    clock->start_ns = now_ns;
    clock->period_ns = period_ns;
}

static bool is_first(const struct cpu_clock *clock, uint64_t time_ns) {
    return clock->rest_ns && time_ns >= clock->start_ns &&
           time_ns - clock->start_ns < clock->period_ns + clock->period_ns / 2;
}

uint64_t cpu_clock_renewed(const struct cpu_clock *clock, uint64_t time_ns) {
    return is_first(clock, time_ns) ? clock->period_ns + clock->period_ns / 2 : 0;
}

uint64_t cpu_clock_weight(struct cpu_clock *clock, uint64_t time_ns) {
    if (time_ns < clock->start_ns)
        return clock->former_period_ns;
    uint64_t rest = is_first(clock, time_ns) ? clock->rest_ns : 0;
    clock->rest_ns = 0;
    return clock->period_ns + rest;
}
