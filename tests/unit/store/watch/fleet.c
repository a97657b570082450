/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/watch/fleet.h"

#include <math.h>
#include <string.h>

#define HZ 19.0

static double uniform(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    return sqrt(-2 * log(uniform(state))) * cos(2 * M_PI * uniform(state));
}

/* Drawn from a Poisson distribution, or its normal limit. */
static double poisson(uint64_t *state, double mean) {
    double product = 1, limit = exp(-mean), count = 0;
    if (mean > 30)
        return fmax(floor(mean + sqrt(mean) * normal(state) + 0.5), 0);
    while ((product *= uniform(state)) > limit)
        count++;
    return count;
}

void fleet_init(struct fleet *fleet, size_t hosts, uint64_t seed) {
    double sum = 0;
    *fleet = (struct fleet){.hosts = hosts, .unrest = 0.1, .tide = 0.1, .state = seed};
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        sum += 1 / (double)(i + 3);
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        fleet->costs[i] = 1 / (double)(i + 3) / sum;
}

static void shift(struct fleet *fleet) {
    if (fleet->slot_count < LEVEL_SLOTS) {
        fleet->slot_count++;
        return;
    }
    memmove(fleet->wholes, fleet->wholes + 1, (LEVEL_SLOTS - 1) * sizeof fleet->wholes[0]);
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        memmove(&fleet->values[i * LEVEL_SLOTS], &fleet->values[i * LEVEL_SLOTS + 1],
                (LEVEL_SLOTS - 1) * sizeof fleet->values[0]);
}

/* Hosts are independent, so their sum varies less than each of them. */
void fleet_slot(struct fleet *fleet, const double *factors) {
    shift(fleet);
    size_t slot = fleet->slot_count - 1;
    double unrest = fleet->unrest / sqrt((double)fleet->hosts), whole = 0;
    fleet->level = 0.9 * fleet->level + fleet->tide * normal(&fleet->state);
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++) {
        double cost = fleet->costs[i] * (factors ? factors[i] : 1) * exp(fleet->level) *
                      fmax(1 + unrest * normal(&fleet->state), 0);
        double samples = cost * HZ * LEVEL_SLOT_S * (double)fleet->hosts;
        double value = poisson(&fleet->state, samples) / HZ;
        fleet->values[i * LEVEL_SLOTS + slot] = (float)value;
        whole += value;
    }
    fleet->wholes[slot] = whole;
    fleet->weights[slot] = 1 / HZ;
}

struct level_input fleet_input(const struct fleet *fleet) {
    return (struct level_input){fleet->slot_count, fleet->wholes, fleet->weights, FLEET_FUNCTIONS,
                                fleet->values};
}
