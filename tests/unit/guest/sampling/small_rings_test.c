/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings where RLIMIT_AS leaves little. */
#include "service/guest/ring.h"
#include "service/guest/sampling/rings.h"
#include "service/guest/signal/handler_state.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#define MIB       (1ull << 20)
#define PERIOD_NS 100000u /* rings of 64 MiB on four CPUs */
#define CPUS      4u

static int create_within(uint64_t room) {
    struct rlimit before, limit;
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    CHECK_INT(getrlimit(RLIMIT_AS, &before), ==, 0);
    limit = before;
    limit.rlim_cur = pages * 4096 + room;
    CHECK_INT(setrlimit(RLIMIT_AS, &limit), ==, 0);
    int error = rings_create(PERIOD_NS, CPUS);
    CHECK_INT(setrlimit(RLIMIT_AS, &before), ==, 0);
    return error;
}

TEST(rings_take_at_most_an_eighth_of_the_room) {
    CHECK_INT(create_within(80 * MIB), ==, 0);
    CHECK_INT(handler_state.rings.count * handler_state.rings.bytes, <=, 10 * MIB);
    CHECK_INT(handler_state.rings.bytes, >=, RING_MIN_BYTES);
    CHECK(rings_suffice(PERIOD_NS, CPUS)); /* nothing better can be had */
    rings_destroy();
}

TEST(without_room_there_are_no_rings) {
    CHECK_INT(create_within(MIB), ==, ENOMEM);
    CHECK(!handler_state.rings.header);
    CHECK_INT(rings_fd(), ==, -1);
}

TEST(rings_without_a_limit_follow_the_plan) {
    uint32_t count;
    CHECK_INT(rings_create(PERIOD_NS, CPUS), ==, 0);
    CHECK_INT(handler_state.rings.bytes, ==, rings_plan(PERIOD_NS, CPUS, &count));
    CHECK(rings_suffice(PERIOD_NS, CPUS));
    CHECK(!rings_suffice(PERIOD_NS / 8, 64 * CPUS));
    rings_destroy();
}
