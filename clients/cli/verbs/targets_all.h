/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `sonde targets --all`: every process of the machine. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_TARGETS_ALL_H
#define SONDE_CLIENTS_CLI_VERBS_TARGETS_ALL_H

#include "proto/sonde/v1/profiler.pb-c.h"

/* Prints a line per process on stdout, in the order of the answer. A terminal gets lines that fit
 * it: the columns for containers and threads go first, then lines are cut. */
void targets_print_all(const Sonde__V1__ListTargetsResponse *response);

#endif
