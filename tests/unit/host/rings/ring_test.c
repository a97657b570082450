/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings, merges, clocks, lists and descriptions of events on hand-made bytes: a ring is a file
 * here, whose first page is the kernel's. */
#include "service/host/rings/clock.h"
#include "service/host/rings/events.h"
#include "service/host/rings/lists.h"
#include "service/host/rings/merge.h"
#include "service/host/rings/parse.h"
#include "service/host/rings/perf_event.h"
#include "service/host/rings/ring.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA 8192u

static _Alignas(8) uint8_t space[PARSE_MAX_BYTES];

static struct perf_event_mmap_page *page;
static uint8_t *data;

/* A ring whose kernel is this test, at a position after several rounds. */
static void make_ring(struct ring *ring, uint64_t at) {
    int fd = memfd_create("ring", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096 + DATA) == 0);
    page = mmap(NULL, 4096 + DATA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    data = (uint8_t *)page + 4096;
    page->data_head = page->data_tail = at;
    CHECK_INT(ring_map(ring, fd, DATA), ==, 0);
    close(fd);
}

/* Appends a record whose bytes after the header all have one value. */
static void put(uint16_t size, uint8_t value) {
    struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = size};
    memcpy(data + page->data_head % DATA, &header, 8);
    for (uint64_t i = 8; i < size; i++)
        data[(page->data_head + i) % DATA] = value;
    page->data_head += size;
}

TEST(records_come_out_whole_over_many_rounds) {
    struct ring ring;
    const uint8_t *record;
    make_ring(&ring, 3 * DATA + 8);
    for (int i = 0; i < 1000; i++) {
        uint16_t size = (uint16_t)(8 + i * 8 % 4000);
        put(size, (uint8_t)i);
        CHECK_INT(ring_peek(&ring, space, &record), ==, RING_RECORD);
        CHECK_INT(ring.record_size, ==, size);
        for (uint16_t at = 8; at < size; at++)
            CHECK_INT(record[at], ==, (uint8_t)i);
        ring_pop(&ring);
        CHECK_INT(ring_peek(&ring, space, &record), ==, RING_EMPTY);
        CHECK(page->data_tail != page->data_head);
        ring_release(&ring);
        CHECK(page->data_tail == page->data_head);
    }
    ring_unmap(&ring);
}

TEST(a_ring_that_breaks_its_rules_is_emptied) {
    struct ring ring;
    const uint8_t *record;
    static const uint16_t sizes[] = {0, 4, 7, 13, 4000, 65535};
    make_ring(&ring, 0);
    for (int i = 0; i < 6; i++) {
        struct perf_event_header header = {.size = sizes[i]};
        memcpy(data + page->data_head % DATA, &header, 8);
        page->data_head += 64;
        CHECK_INT(ring_peek(&ring, space, &record), ==, RING_INVALID);
        CHECK(page->data_tail == page->data_head);
        CHECK_INT(ring_peek(&ring, space, &record), ==, RING_EMPTY);
    }
    page->data_head += 2 * DATA; /* more than the ring holds */
    CHECK_INT(ring_peek(&ring, space, &record), ==, RING_INVALID);
    page->data_head += 3; /* less than a header */
    CHECK_INT(ring_peek(&ring, space, &record), ==, RING_INVALID);
    page->data_head += 64; /* not aligned */
    CHECK_INT(ring_peek(&ring, space, &record), ==, RING_INVALID);
    page->data_head = 0; /* backwards */
    CHECK_INT(ring_peek(&ring, space, &record), ==, RING_INVALID);
    ring_unmap(&ring);
}

TEST(an_event_that_cannot_be_mapped_is_an_error) {
    struct ring ring;
    CHECK_INT(ring_map(&ring, -1, DATA), ==, -EBADF);
    CHECK(ring.base == NULL);
    ring_unmap(&ring);
}

TEST(the_oldest_head_of_all_rings_comes_first) {
    struct merge_head heads[100];
    struct merge merge = {heads, 0};
    uint64_t random = 1, former = 0;
    for (uint32_t i = 0; i < 100; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        merge_push(&merge, (struct merge_head){random >> 60, i});
    }
    for (uint32_t i = 0, ring = 0; i < 100; i++) {
        const struct merge_head *first = merge_first(&merge);
        CHECK(first->time_ns > former || (first->time_ns == former && first->ring >= ring));
        former = first->time_ns;
        ring = first->ring;
        merge_pop(&merge);
    }
    CHECK(merge_first(&merge) == NULL);
}

TEST(a_busy_cpus_samples_weigh_as_much_as_its_time) {
    struct cpu_clock clock = {0};
    uint64_t now = 1000000, sum = 0, next;
    const uint64_t begin = now;
    cpu_clock_restart(&clock, now, 9000, true);
    next = now + 9000;
    for (int i = 0; i < 1000; i++) {
        uint64_t period = 8000 + (uint64_t)(i * 37 % 2000), until = now + 100000 + (uint64_t)i * 7;
        for (; next < until; next += clock.period_ns)
            sum += cpu_clock_weight(&clock, next + 3); /* 3 ns late */
        now = until;
        cpu_clock_restart(&clock, now, period, false);
        next = now + period;
    }
    CHECK_NEAR(sum, now - begin, 20000);
}

TEST(time_before_an_idle_tick_is_not_added_to_a_later_sample) {
    struct cpu_clock clock = {0};
    cpu_clock_restart(&clock, 1000, 100, true);
    cpu_clock_restart(&clock, 1190, 100, false); /* 90 without a sample; the tick at 1290 is idle */
    CHECK_INT(cpu_clock_weight(&clock, 1390), ==, 100);
    CHECK_INT(cpu_clock_weight(&clock, 1490), ==, 100);
    cpu_clock_restart(&clock, 1500, 200, false);
    CHECK_INT(cpu_clock_weight(&clock, 1490), ==, 100); /* read late: of the former period */
    CHECK_INT(cpu_clock_renewed(&clock, 1490), ==, 0);
    CHECK_INT(cpu_clock_renewed(&clock, 1700), ==, 300); /* as if it had started at 1500 */
    CHECK_INT(cpu_clock_weight(&clock, 1700), ==, 210);
    CHECK_INT(cpu_clock_renewed(&clock, 1900), ==, 0);
    CHECK_INT(cpu_clock_weight(&clock, 1900), ==, 200);
}

TEST(a_clock_that_is_changed_before_its_first_tick_keeps_the_time) {
    struct cpu_clock clock = {0};
    cpu_clock_restart(&clock, 1000, 100, true);
    cpu_clock_restart(&clock, 1150, 100, false); /* 50 */
    cpu_clock_restart(&clock, 1180, 100, false); /* and 30 */
    CHECK_INT(cpu_clock_weight(&clock, 1280), ==, 180);
}

/* As when longer copies of stacks need other rings, while a capture raises the rate. */
TEST(a_clock_that_is_changed_at_its_start_is_one_that_starts_with_that_period) {
    struct cpu_clock clock = {0};
    cpu_clock_restart(&clock, 1000, 40000, true);
    cpu_clock_restart(&clock, 1010, 100, false);
    CHECK_INT(cpu_clock_weight(&clock, 1110), ==, 160);
    CHECK_INT(cpu_clock_weight(&clock, 1210), ==, 100);
}

static sonde_err parse_cpus(const char *text, struct number_list *list) {
    *list = (struct number_list){0};
    return number_list_parse(list, text);
}

TEST(a_list_of_cpus_may_have_holes) {
    struct number_list list;
    CHECK_INT(parse_cpus("0-2,5,8-9\n", &list), ==, SONDE_OK);
    static const int expected[] = {0, 1, 2, 5, 8, 9};
    CHECK_INT(list.count, ==, 6);
    for (int i = 0; i < 6; i++)
        CHECK_INT(list.numbers[i], ==, expected[i]);
    CHECK(number_list_has(&list, 5));
    CHECK(!number_list_has(&list, 3));
    number_list_finish(&list);
    static const char *const bad[] = {"",    "\n",    "0-",    "-3",      "1,",
                                      "3-1", "0-2,1", "a",     "0-65536", "99999999999",
                                      "0 1", "0\n1",  "0-1-2", "0,,1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(parse_cpus(bad[i], &list), ==, SONDE_CORRUPT);
        number_list_finish(&list);
    }
}

TEST(periods_are_near_the_asked_one_but_never_at_it) {
    struct events events = {.random = 1};
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t period = events_dither(&events, 1000000);
        uint64_t off = period > 1000000 ? period - 1000000 : 1000000 - period;
        CHECK_INT(off, >=, 1000000 / 32);
        CHECK_INT(off, <=, 1000000 / 8);
        sum += (double)period;
    }
    CHECK_NEAR(sum / 10000, 1e6, 5000);
}

TEST(periods_keep_the_bounds_of_perf_and_of_the_kernels_rate) {
    struct events events = {.random = 1};
    for (int i = 0; i < 100; i++) {
        CHECK_INT(events_dither(&events, 80000), >=, 80000);
        CHECK_INT(events_dither(&events, 10000000000), <=, 10000000000);
    }
    events.shortest_ns = 400000;
    for (int i = 0; i < 100; i++)
        CHECK_INT(events_dither(&events, 100000), ==, 400000);
    CHECK_INT(max_sample_rate_read(), <, 10000000);
}

TEST(a_process_that_has_ended_has_no_threads) {
    struct number_list list = {0};
    CHECK_INT(number_list_read_threads(&list, getpid()), ==, SONDE_OK);
    CHECK(number_list_has(&list, getpid()));
    number_list_finish(&list);
    CHECK_INT(number_list_read_threads(&list, 0x7ffffff0), ==, SONDE_TARGET_GONE);
    number_list_finish(&list);
}

TEST(an_invalid_description_opens_nothing) {
    const struct perf_event_spec good = {
        .pid = -1, .cpu = 0, .period_ns = 1000000, .stack_bytes = HOST_MIN_STACK};
    struct perf_event_spec bad[15];
    for (int i = 0; i < 15; i++)
        bad[i] = good;
    bad[0].pid = 0;
    bad[1].pid = -2;
    bad[2].cpu = -1;
    bad[3].cpu = 1 << 20;
    bad[4].period_ns = 0;
    bad[5].period_ns = 79999;
    bad[6].period_ns = 10000000001;
    bad[7].stack_bytes = 0;
    bad[8].stack_bytes = HOST_MIN_STACK + 4;
    bad[9].stack_bytes = HOST_MAX_STACK + 8;
    bad[10].is_exec_start = true;
    bad[11].stack_bytes = UINT32_MAX;
    bad[12].event = SONDE_WALL;
    bad[13].event = UINT32_MAX;
    bad[14].every = 1; /* the clock has no events to count */
    for (int i = 0; i < 15; i++)
        CHECK_INT(perf_event_create(&bad[i]), ==, -EINVAL);
}
