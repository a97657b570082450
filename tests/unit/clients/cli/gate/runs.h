/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up runs of a program for the tests of the gate: profiles of simulated blocks. */
#ifndef SONDE_TESTS_UNIT_CLIENTS_CLI_GATE_RUNS_H
#define SONDE_TESTS_UNIT_CLIENTS_CLI_GATE_RUNS_H

#include "clients/cli/verbs/gate/decide.h"
#include "tests/unit/profile/verdict/simulate.h"

/* Some runs of both sides. */
struct runs {
    struct sonde_profile *profiles[2][MAX_BLOCKS];
    size_t counts[2];
};

/* Runs the simulation for one side; function i of it is called "function i" by "main". */
void runs_add(struct runs *runs, int side, struct simulation *simulation);
/* The caller destroys the comparison. */
struct sonde_comparison *runs_compare(const struct runs *runs, double confidence);
void runs_finish(struct runs *runs);

#endif
