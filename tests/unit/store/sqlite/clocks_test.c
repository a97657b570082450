/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of the CPU time that the kernel counted was sampled. */
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <string.h>

#define MS 1000000

static struct scene scene;
static uint64_t seq;

/* A window of a process, with samples of that many milliseconds. */
static void put(uint32_t pid, int64_t begin, uint64_t from_ms, uint64_t until_ms, int64_t ms) {
    const struct row row = {1, "main", ms * MS};
    scene_put(&scene, &(struct spec){.begin = HOUR + begin,
                                     .pid = pid,
                                     .seq = seq++,
                                     .cpu_from_ns = from_ms * MS,
                                     .cpu_until_ns = until_ms * MS,
                                     .rows = &row,
                                     .row_count = 1});
}

static struct store_merge merge(void) {
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    return scene_merge(&scene, &query);
}

/* Also after the hour has become a rollup. */
TEST(missing_windows_count_as_time_that_was_not_sampled) {
    scene_open(&scene);
    put(1, 0, 5000, 6000, 1000);
    put(1, 10, 6000, 7000, 900);
    put(1, 40, 9000, 10000, 1000); /* two windows are missing */
    put(2, 0, 0, 500, 480);
    for (int i = 0; i < 2; i++) {
        struct store_merge found = merge();
        CHECK_INT(found.counted_ns, ==, 5500ll * MS);
        CHECK_INT(found.sampled_ns, ==, 3380ll * MS);
        scene_maintain(&scene, HOUR + 3600 * 3);
    }
    scene_close(&scene);
}

/* They are from an older Sonde, or of processes that share a record. */
TEST(windows_without_a_clock_are_left_out) {
    scene_open(&scene);
    put(1, 0, 0, 0, 1000);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(merge().counted_ns, ==, 0);
        CHECK_INT(merge().sampled_ns, ==, 0);
        scene_maintain(&scene, HOUR + 3600 * 3);
    }
    for (uint32_t pid = 1; pid <= 2; pid++) /* of one that had none, and of another */
        put(pid, 1, 100, 300, 150);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(merge().counted_ns, ==, 400 * MS);
        CHECK_INT(merge().sampled_ns, ==, 300 * MS);
        scene_maintain(&scene, HOUR + 3600 * 3);
    }
    scene_close(&scene);
}

TEST(drawn_processes_count_with_their_weight) {
    const struct row row = {1, "main", 80 * MS};
    scene_open(&scene);
    scene_put(&scene, &(struct spec){.begin = HOUR,
                                     .seq = 1000,
                                     .weight = 2.5,
                                     .cpu_from_ns = 100 * MS,
                                     .cpu_until_ns = 200 * MS,
                                     .rows = &row,
                                     .row_count = 1});
    CHECK_INT(merge().counted_ns, ==, 250 * MS);
    CHECK_INT(merge().sampled_ns, ==, 200 * MS);
    scene_close(&scene);
}

TEST(a_clock_that_goes_back_is_refused) {
    scene_open(&scene);
    struct store_put_result result;
    struct sonde_diag diag = {0};
    const struct spec spec = {.begin = HOUR, .seq = 2000, .cpu_from_ns = 2, .cpu_until_ns = 1};
    CHECK_INT(scene_try(&scene, &spec, &result, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "cpu_until_ns"));
    scene_close(&scene);
}
