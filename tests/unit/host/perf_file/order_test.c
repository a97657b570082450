/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/perf_file/parts.h"

#include "tests/unit/check.h"

struct delivered {
    uint64_t times[64];
    uint32_t count;
};

static void deliver(void *context, const uint8_t *bytes, size_t size) {
    struct delivered *delivered = context;
    CHECK_INT(size, ==, 16);
    memcpy(&delivered->times[delivered->count++], bytes + 8, sizeof(uint64_t));
}

static void add(struct perf_order *order, uint64_t time_ns) {
    struct {
        struct perf_event_header header;
        uint64_t time_ns;
    } record = {{.type = PERF_RECORD_SAMPLE, .size = 16}, time_ns};
    CHECK(perf_order_add(order, time_ns, (const uint8_t *)&record, sizeof record));
}

TEST(a_round_delivers_what_no_later_record_can_precede) {
    struct perf_order order = {.limit = 1 << 20};
    struct delivered delivered = {.count = 0};
    add(&order, 30);
    add(&order, 10);
    perf_order_round(&order, deliver, &delivered);
    CHECK_INT(delivered.count, ==, 0);
    add(&order, 20);
    add(&order, 40);
    perf_order_round(&order, deliver, &delivered);
    CHECK_INT(delivered.count, ==, 3);
    CHECK_INT(delivered.times[0], ==, 10);
    CHECK_INT(delivered.times[1], ==, 20);
    CHECK_INT(delivered.times[2], ==, 30);
    perf_order_flush(&order, deliver, &delivered);
    CHECK_INT(delivered.times[3], ==, 40);
    perf_order_finish(&order);
}

TEST(records_of_one_time_keep_their_order_and_those_without_come_first) {
    struct perf_order order = {.limit = 1 << 20};
    struct delivered delivered = {.count = 0};
    add(&order, 5);
    add(&order, 0);
    add(&order, 5);
    perf_order_flush(&order, deliver, &delivered);
    CHECK_INT(delivered.count, ==, 3);
    CHECK_INT(delivered.times[0], ==, 0);
    perf_order_finish(&order);
}

TEST(past_its_limit_the_queue_delivers_its_older_half) {
    struct perf_order order = {.limit = 9 * (16 + sizeof(struct perf_waiting))};
    struct delivered delivered = {.count = 0};
    for (uint64_t time_ns = 20; time_ns > 10; time_ns--) {
        add(&order, time_ns);
        perf_order_relieve(&order, deliver, &delivered);
    }
    CHECK_INT(delivered.count, ==, 5);
    CHECK_INT(delivered.times[0], ==, 11);
    CHECK_INT(delivered.times[4], ==, 15);
    CHECK_INT(order.delivered_ns, ==, 15);
    CHECK(order.bytes <= order.limit);
    perf_order_finish(&order);
}
