/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps_watch.h"
#include "tests/unit/check.h"

#include <sys/mman.h>

#define S  1000000000ll
#define MS 1000000ll

static const struct maps_reasons none = {.running = true};

static struct maps_watch begin(int64_t cost_ns) {
    struct maps_watch watch = {0};
    maps_watch_before(&watch);
    maps_watch_begin(&watch, 100 * S, cost_ns, none);
    return watch;
}

TEST(maps_that_do_not_change_are_read_every_ten_seconds) {
    struct maps_watch watch = begin(MS / 10);
    int readings = 0, looks = 0;
    for (int64_t now = 100 * S; now < 160 * S; now = maps_watch_due(&watch, none), looks++)
        if (maps_watch_wants(&watch, now, none)) {
            readings++;
            maps_watch_before(&watch);
            maps_watch_begin(&watch, now, MS / 10, none);
        }
    CHECK_INT(readings, >=, 5);
    CHECK_INT(readings, <=, 6);
    CHECK_INT(looks, >=, 100);
}

TEST(a_new_mapping_is_noticed_at_the_next_look) {
    struct maps_watch watch = begin(MS / 10);
    CHECK(!maps_watch_wants(&watch, 100 * S + 600 * MS, none));
    void *code = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(!maps_watch_wants(&watch, 100 * S + 700 * MS, none));
    CHECK(maps_watch_wants(&watch, 100 * S + 1200 * MS, none));
    munmap(code, 1 << 20);
}

TEST(memory_that_becomes_code_is_noticed) {
    void *code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct maps_watch watch = begin(MS / 10);
    mprotect(code, 1 << 20, PROT_READ | PROT_EXEC);
    CHECK(maps_watch_wants(&watch, 100 * S + 600 * MS, none));
    munmap(code, 1 << 20);
}

TEST(maps_are_read_soon_after_a_miss_or_a_dlclose_but_not_at_once) {
    struct maps_reasons missed = {.missed = true, .running = true};
    struct maps_reasons closed = {.closed = true, .running = true};
    struct maps_watch watch = begin(MS / 10);
    CHECK_INT(maps_watch_due(&watch, missed), ==, 100 * S + 50 * MS);
    CHECK_INT(maps_watch_due(&watch, closed), ==, 100 * S + 20 * MS);
    CHECK(!maps_watch_wants(&watch, 100 * S + 30 * MS, missed));
    CHECK(maps_watch_wants(&watch, 100 * S + 50 * MS, missed));
    CHECK(maps_watch_wants(&watch, 100 * S + 30 * MS, closed));
}

TEST(slow_readings_are_rare_whatever_the_reason) {
    struct maps_reasons both = {.missed = true, .closed = true, .running = true};
    struct maps_watch watch = begin(40 * MS);
    CHECK_INT(maps_watch_due(&watch, both), ==, 102 * S);
}
