/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up service on several hosts, sampled at 19 Hz, in slots of 5 minutes. */
#ifndef SONDE_TESTS_UNIT_STORE_WATCH_FLEET_H
#define SONDE_TESTS_UNIT_STORE_WATCH_FLEET_H

#include "service/watch/level.h"

#define FLEET_FUNCTIONS 120

struct fleet {
    size_t hosts;
    double costs[FLEET_FUNCTIONS]; /* CPU seconds per second of a host */
    double unrest; /* standard deviation of a function's cost on a host in a slot, as a part */
    double tide;  /* of all functions together, from slot to slot; neighbours resemble each other */
    double level; /* of the tide, kept between slots */
    uint64_t state; /* of the random numbers; the seed */
    /* The last LEVEL_SLOTS slots. */
    double wholes[LEVEL_SLOTS], weights[LEVEL_SLOTS];
    float values[FLEET_FUNCTIONS * LEVEL_SLOTS];
    size_t slot_count;
};

/* Costs fall like 1 / rank; their sum is one CPU per host. */
void fleet_init(struct fleet *fleet, size_t hosts, uint64_t seed);
/* factors: of the functions in this slot, by function; NULL = 1. */
void fleet_slot(struct fleet *fleet, const double *factors);
struct level_input fleet_input(const struct fleet *fleet);

#endif
