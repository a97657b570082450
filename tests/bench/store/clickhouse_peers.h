/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables with the layouts of DeepFlow and Parca, on the same ClickHouse server with the same kind
 * of data:
 *
 *     DeepFlow   a row per stack of a window: time, service, process, thread, value, and the folded
 *                stack (names joined by ';') compressed with zstd. A query reads all rows, expands
 *                each distinct stack once, and sums rows one by one
 *     Parca      a row per stack of a window: time, labels, and arrays with the address, build-id,
 *                function, file and line of each frame. A query groups by the arrays */
#ifndef SONDE_TESTS_BENCH_STORE_CLICKHOUSE_PEERS_H
#define SONDE_TESTS_BENCH_STORE_CLICKHOUSE_PEERS_H

#include "tests/bench/store/model.h"
#include "tests/unit/store/clickhouse/server.h"

/* Runs a statement; the program ends if it fails. Returns its answer's first number. */
double peers_number(const struct server *server, const char *sql);
/* Merges all parts of a table. */
void peers_optimize(const struct server *server, const char *table);
/* Prints a line for each layout with 200 hosts for some minutes. */
void peers_run(const struct server *server, struct model *model, int minutes);

#endif
