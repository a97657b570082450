/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/counter.h"

void counter_set(struct counter *counter, uint64_t every, uint64_t now_ns) {
    counter->changes[counter->count++ % COUNTER_CHANGES] = (struct counter_change){every, now_ns};
}

static uint64_t every_at(const struct counter *counter, uint64_t time_ns) {
    uint64_t i = counter->count - 1;
    uint64_t oldest = i < COUNTER_CHANGES ? 0 : i - COUNTER_CHANGES + 1;
    while (i > oldest && counter->changes[i % COUNTER_CHANGES].since_ns > time_ns)
        i--;
    return counter->changes[i % COUNTER_CHANGES].every;
}

uint64_t counter_weigh(struct counter *counter, uint64_t time_ns, uint64_t told) {
    uint64_t weight = counter->count > 0 ? every_at(counter, time_ns) : told;
    counter->sampled += weight;
    return weight;
}
