/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/profile/verdict/simulate.h"

#include <math.h>
#include <string.h>

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_number(uint64_t *state) {
    return (double)(next(state) >> 11) * 0x1p-53;
}

double random_normal(uint64_t *state) {
    double radius = sqrt(-2 * log(1 - random_number(state)));
    return radius * cos(2 * M_PI * random_number(state));
}

double random_poisson(double mean, uint64_t *state) {
    double count = -1, time = 0;
    for (; time < mean; count++)
        time -= log(1 - random_number(state));
    return count < 0 ? 0 : count;
}

void simulation_set_costs(struct simulation *simulation, size_t function_count, double sum) {
    double all = 0;
    simulation->function_count = function_count;
    for (size_t i = 0; i < function_count; i++)
        all += 1 / (double)(i + 1);
    for (size_t i = 0; i < function_count; i++)
        simulation->costs[i] = sum / (double)(i + 1) / all;
}

static void add(struct simulation *simulation, struct sampling *sampling, size_t function,
                size_t block) {
    bool is_heavy = simulation->heavy > 0 && random_number(&simulation->state) < 0.1;
    double weight = is_heavy ? simulation->heavy : 1;
    struct verdict_cell *cells[] = {&sampling->cells[function][block], &sampling->totals[block]};
    for (int i = 0; i < 2; i++) {
        cells[i]->value += weight;
        cells[i]->samples++;
        cells[i]->squares += weight * weight;
    }
}

static size_t pick(struct simulation *simulation, const double *costs, double sum) {
    double at = random_number(&simulation->state) * sum;
    size_t function = 0;
    for (; function + 1 < simulation->function_count && at >= costs[function]; function++)
        at -= costs[function];
    return function;
}

static void run_block(struct simulation *simulation, struct sampling *sampling, size_t block) {
    double costs[MAX_FUNCTIONS], sum = 0, expected = 0;
    for (size_t i = 0; i < simulation->function_count; i++) {
        double part = 1 + simulation->unrest * random_normal(&simulation->state);
        costs[i] = simulation->costs[i] * (part > 0 ? part : 0);
        sum += costs[i];
        expected += simulation->costs[i];
    }
    double count =
        simulation->fixed_total ? round(expected) : random_poisson(sum, &simulation->state);
    for (double i = 0; i < count; i++)
        add(simulation, sampling, pick(simulation, costs, sum), block);
}

void simulation_run(struct simulation *simulation, struct sampling *sampling) {
    memset(sampling, 0, sizeof *sampling);
    for (size_t i = 0; i < simulation->block_count; i++)
        run_block(simulation, sampling, i);
}

struct verdict_side sampling_side(const struct simulation *simulation,
                                  const struct sampling *sampling) {
    return (struct verdict_side){
        .block_count = simulation->block_count, .totals = sampling->totals, .is_counted = true};
}
