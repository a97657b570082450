/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/counter.h"

void counter_set(struct counter *counter, uint64_t every, uint64_t now_ns) {
    counter->former_every = counter->every;
    counter->every = every;
    counter->changed_ns = now_ns;
}

uint64_t counter_weigh(struct counter *counter, uint64_t time_ns, uint64_t told) {
    uint64_t weight = counter->every;
    if (weight && time_ns < counter->changed_ns && counter->former_every)
        weight = counter->former_every;
    if (!weight)
        weight = told;
    counter->sampled += weight;
    return weight;
}
