/* SPDX-License-Identifier: Apache-2.0
 *
 * Samplings of a made-up program, from a seed. */
#ifndef SONDE_TESTS_UNIT_PROFILE_VERDICT_SIMULATE_H
#define SONDE_TESTS_UNIT_PROFILE_VERDICT_SIMULATE_H

#include "api/profile/verdict/verdict.h"

#define MAX_FUNCTIONS 200
#define MAX_BLOCKS    40

struct simulation {
    size_t function_count, block_count;
    double costs[MAX_FUNCTIONS]; /* expected number of samples per block */
    double unrest;    /* standard deviation of a function's cost between blocks, as a part */
    bool fixed_total; /* a block has as many samples as the costs' sum */
    double heavy;     /* a part of the samples has this weight, the others 1 */
    uint64_t state;   /* of the random numbers; the seed */
};

/* One side: cells[function][block]. */
struct sampling {
    struct verdict_cell totals[MAX_BLOCKS], cells[MAX_FUNCTIONS][MAX_BLOCKS];
};

double random_number(uint64_t *state); /* from 0 to 1 */
double random_normal(uint64_t *state);
double random_poisson(double mean, uint64_t *state);
/* function_count costs that fall like 1 / rank, with that sum. */
void simulation_set_costs(struct simulation *simulation, size_t function_count, double sum);
void simulation_run(struct simulation *simulation, struct sampling *sampling);
struct verdict_side sampling_side(const struct simulation *simulation,
                                  const struct sampling *sampling);

#endif
