/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of the CPU time that the kernel counted was sampled, on a real server. */
#include "service/store/clickhouse/fleet.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/scene.h"

#define MS     1000000
#define PERIOD 52631578 /* of scene_window, which has 3 samples */

static struct store_merge merge_of(struct store *store) {
    struct sonde_arena arena = {0};
    struct store_query query = scene_query();
    struct store_merge merge;
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    sonde_arena_finish(&arena);
    return merge;
}

static struct store_window window_of(uint64_t seq, uint32_t pid, uint64_t from_ms,
                                     uint64_t until_ms) {
    struct store_window window = scene_window(seq);
    window.pid = pid;
    window.cpu_from_ns = from_ms * MS;
    window.cpu_until_ns = until_ms * MS;
    return window;
}

static void run(struct store *store, const char *sql) {
    struct sonde_diag diag = {0};
    if (fleet_run((struct fleet *)store, 0, sql, NULL, NULL, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
}

/* Windows 1 and 2 of the first process are missing. Also after the hour has become a rollup. */
TEST(missing_windows_count_as_time_that_was_not_sampled) {
    struct store *store = scene_open("clocks", NULL);
    struct store_window windows[] = {window_of(0, 1, 5000, 5200), window_of(3, 1, 6800, 7000),
                                     window_of(4, 2, 0, 160), window_of(5, 3, 0, 0)};
    windows[2].weight = 2;
    scene_put(store, windows, 4);
    for (int i = 0; i < 2; i++) {
        struct store_merge found = merge_of(store);
        CHECK_INT(found.counted_ns, ==, 2320ll * MS);
        CHECK_INT(found.sampled_ns, ==, (6 + 2 * 3) * (int64_t)PERIOD);
        CHECK_INT(store->ops->maintain(store, SCENE_TIME + 3 * 3600, NULL), ==, SONDE_OK);
    }
    store_close(store);
}

/* The database of an earlier version gets the columns when it is opened, and its windows count as
 * before. */
TEST(a_database_without_clocks_goes_on) {
    struct store *store = scene_open("old", NULL);
    struct store_window old = scene_window(0), new = window_of(1, 42, 100, 300);
    scene_put(store, &old, 1);
    run(store, "ALTER TABLE samples DROP COLUMN cpu_ms");
    run(store, "ALTER TABLE samples DROP COLUMN cpu_clock_ms");
    run(store, "ALTER TABLE rollup_windows DROP COLUMN counted_ns");
    run(store, "ALTER TABLE rollup_windows DROP COLUMN sampled_ns");
    store_close(store);
    for (int i = 0; i < 2; i++) {
        store = scene_open("old", NULL);
        struct store_merge found = merge_of(store);
        CHECK_INT(found.windows, ==, 1 + i);
        CHECK_INT(found.counted_ns, ==, i * 200 * MS);
        scene_put(store, &new, 1);
        CHECK_INT(store->ops->maintain(store, SCENE_TIME + 3 * 3600, NULL), ==, SONDE_OK);
        CHECK_INT(merge_of(store).counted_ns, ==, 200 * MS);
        store_close(store);
    }
}
