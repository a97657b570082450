/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/rings.h"

#include "service/guest/ring.h"
#include "tests/unit/check.h"

TEST(ring_sizes_follow_rate_and_cpus_within_bounds) {
    uint32_t count;
    CHECK_INT(rings_plan(1000000, 1, &count), >=, 1000000);
    CHECK_INT(count, ==, 1);
    CHECK_INT(rings_plan(10000000, 6, &count), >=, RING_MIN_BYTES);
    CHECK_INT(count, ==, 4);
    CHECK_INT(rings_plan(100000, 4096, &count), ==, RING_MAX_BYTES);
    CHECK_INT(count, ==, RING_MAX_RINGS);
    CHECK_INT(rings_plan(0, 1, &count), ==, RING_MAX_BYTES);
}
