/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables with the layouts of DeepFlow and Parca, rebuilt in SQLite with the same settings and data:
 *
 *     DeepFlow   a row per stack of a window: time, service, thread, value, and the folded stack
 *                (names joined by ';') compressed with zstd
 *     Parca      a row per stack of a window: time, labels as JSON, and arrays with the address,
 *                build-id, function, file and line of each frame
 *
 * Queries do what their servers do: DeepFlow's expands each stack once and sums rows one by one,
 * Parca's groups by the arrays. */
#ifndef SONDE_TESTS_BENCH_STORE_PEERS_H
#define SONDE_TESTS_BENCH_STORE_PEERS_H

#include "tests/bench/store/model.h"

/* Prints a section for each. The files are created in `directory`. */
void peers_run(struct model *model, const char *directory);

#endif
