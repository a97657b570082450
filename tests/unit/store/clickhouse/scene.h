/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a real server that all tests of a program share, each test with a database of its own;
 * and small batches. */
#ifndef SONDE_TESTS_UNIT_STORE_CLICKHOUSE_SCENE_H
#define SONDE_TESTS_UNIT_STORE_CLICKHOUSE_SCENE_H

#include "service/store/store.h"
#include "tests/unit/store/clickhouse/server.h"

#include <stddef.h>

/* An hour (UTC) in 2026. */
#define SCENE_TIME ((int64_t)1780000000 / 3600 * 3600)

/* Starts it once. Skips the test if there is none. */
struct server *scene_server(void);
/* "http://127.0.0.1:PORT/DATABASE" + settings; valid until the next call. */
const char *scene_url(const char *database, const char *settings);
struct store *scene_open(const char *database, const struct store_limits *limits);

/* A window of 10 s with two rows, of stacks 1 and 2 and threads "main" and "io", 30 and 12 ns. */
struct store_window scene_window(uint64_t seq);
/* Stores windows, and fails the test if that fails. */
struct store_put_result scene_put(struct store *store, const struct store_window *windows,
                                  size_t count);
/* A query of on-cpu of service "shop" on the day of SCENE_TIME. */
struct store_query scene_query(void);
/* Sum of all rows of the merge; the arena is freed. */
int64_t scene_sum(struct store *store, const struct store_query *query);
int64_t scene_sum_where(struct store *store, const char *selector);

#endif
