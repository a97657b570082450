/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a folder of the test's own, and batches to put into it. */
#ifndef SONDE_TESTS_UNIT_STORE_SQLITE_SCENE_H
#define SONDE_TESTS_UNIT_STORE_SQLITE_SCENE_H

#include "service/store/selector/selector.h"
#include "service/store/sqlite/sqlite.h"

#define HOUR 1700002800 /* the begin of an hour */

struct scene {
    char directory[256];
    char path[300]; /* of history.db */
    struct store *store;
    struct sonde_arena arena;
};

void scene_open(struct scene *scene);
/* Opens the same directory again, with limits. */
void scene_reopen(struct scene *scene, const struct store_limits *limits);
void scene_close(struct scene *scene);

/* A window of one process: 10 s, 1 ms a sample, `rows` rows. seq is its delivery. */
struct row {
    uint64_t stack;
    const char *thread;
    int64_t value;
};
struct spec {
    const char *service, *event, *host, *version;
    uint32_t pid;
    uint64_t seq;
    int64_t begin;
    double weight;
    uint64_t cpu_from_ns, cpu_until_ns;
    const struct row *rows;
    uint32_t row_count;
};
/* Puts one window; missing names have defaults. */
struct store_put_result scene_put(struct scene *scene, const struct spec *spec);
sonde_err scene_try(struct scene *scene, const struct spec *spec, struct store_put_result *result,
                    struct sonde_diag *diag);
/* Puts `count` windows from `begin`, one every 10 s, with pseudo-random rows. */
void scene_fill(struct scene *scene, const char *service, int64_t begin, int count);

/* Runs the store's maintenance as if it were `now`, in Unix seconds. */
void scene_maintain(struct scene *scene, int64_t now);

struct store_query scene_query(int64_t from, int64_t until);
struct store_merge scene_merge(struct scene *scene, const struct store_query *query);
struct store_merge scene_select(struct scene *scene, int64_t from, int64_t until,
                                const char *selector);
/* The value of a stack and thread ("" = of all), and of all rows. */
int64_t scene_value(const struct store_merge *merge, uint64_t stack, const char *thread);
int64_t scene_total(const struct store_merge *merge);

#endif
