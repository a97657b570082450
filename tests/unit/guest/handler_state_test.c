/* SPDX-License-Identifier: Apache-2.0
 *
 * The signal-safe room from outside a handler: rings, periods, bounds. */
#include "service/guest/sampling/rings.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/chain.h"
#include "service/guest/signal/period.h"
#include "service/guest/signal/push.h"

#include "tests/unit/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u

/* ---- Rings ---- */

static struct ring_set make_rings(uint32_t count, uint64_t bytes) {
    size_t size = RING_PAGE + count * (RING_PAGE + bytes);
    struct ring_header *header = aligned_alloc(RING_PAGE, size);
    CHECK(header);
    memset(header, 0, size);
    return (struct ring_set){header, count, bytes};
}

/* What a consumer would take: number of records, zeroing them. */
static int take_all(const struct ring_set *rings, uint32_t index, uint64_t *bytes_of_pads) {
    struct ring_control *ring = ring_control_of(rings, index);
    char *data = (char *)ring + RING_PAGE;
    int count = 0;
    uint64_t tail = ring->tail;
    while (tail < ring->head) {
        struct ring_record *record = (struct ring_record *)(data + tail % rings->bytes);
        uint32_t size = atomic_load(&record->size);
        if (size == 0)
            break;
        if (record->kind == RING_RECORD_PAD)
            *bytes_of_pads += size;
        else
            count++;
        memset(record, 0, size);
        tail += size;
        ring->tail = tail;
    }
    return count;
}

TEST(ring_push_on_full_ring_counts_a_drop) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    int pushed = 0;
    uint64_t pads = 0;
    while (ring_push_unseen(&rings, 7, 1000, RING_UNSEEN_SHORT))
        pushed++;
    CHECK_INT(pushed, ==, RING_MIN_BYTES / sizeof(struct ring_unseen));
    CHECK_INT(rings.header->drops[RING_DROP_FULL], ==, 1);
    CHECK_INT(rings.header->dropped_ns, ==, 1000);
    CHECK_INT(take_all(&rings, 0, &pads), ==, pushed);
    CHECK(ring_push_unseen(&rings, 7, 1000, RING_UNSEEN_SHORT));
    free(rings.header);
}

TEST(ring_records_never_wrap) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    uint64_t pads = 0;
    int records = 0;
    for (int i = 0; i < 5000; i++) {
        uint32_t size = 16 + 8 * (uint32_t)(i % 100);
        struct ring_record *record = ring_reserve(&rings, 0, size, 0);
        CHECK(record);
        char *data = (char *)ring_control_of(&rings, 0) + RING_PAGE;
        CHECK((char *)record >= data && (char *)record + size <= data + rings.bytes);
        memset((char *)record + 16, 0xab, size - 16);
        record->kind = RING_RECORD_SAMPLE;
        ring_publish(record, size);
        records += take_all(&rings, 0, &pads);
    }
    CHECK_INT(records, ==, 5000);
    CHECK_INT(pads, >, 0);
    free(rings.header);
}

TEST(ring_threads_choose_rings_by_tid) {
    struct ring_set rings = make_rings(4, RING_MIN_BYTES);
    for (uint32_t tid = 0; tid < 8; tid++)
        CHECK(ring_push_unseen(&rings, tid, 1, RING_UNSEEN_SHORT));
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(ring_control_of(&rings, i)->head, ==, 2 * sizeof(struct ring_unseen));
    free(rings.header);
}

TEST(ring_survives_wrong_counts_from_the_other_side) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    struct ring_control *ring = ring_control_of(&rings, 0);
    uint64_t wrong[] = {1, 7, RING_MIN_BYTES - 1, 1ull << 63, UINT64_MAX, UINT64_MAX - 100};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            ring->head = wrong[i];
            ring->tail = wrong[j];
            struct ring_record *record = ring_reserve(&rings, 0, 1064, 0);
            char *data = (char *)ring + RING_PAGE;
            if (record)
                CHECK((char *)record >= data && (char *)record + 1064 <= data + rings.bytes);
        }
    free(rings.header);
}

#define PRODUCERS 4
#define EACH      20000

/* The memory between head and tail should be zero; sonded can see to it that it is not. */
TEST(a_name_stays_within_its_record_whatever_the_memory_held) {
    struct ring_set rings = make_rings(1, RING_MIN_BYTES);
    unsigned char *data = (unsigned char *)ring_control_of(&rings, 0) + RING_PAGE;
    memset(data, 0xff, RING_MIN_BYTES);
    CHECK(ring_push_thread(&rings, 7, "worker\0\0\0\0\0\0\0\0\0", 3, "abc", 0));
    const struct ring_thread *thread = (const struct ring_thread *)data;
    CHECK_INT(thread->label_len, ==, 3);
    CHECK(memcmp(thread->text, "abc", 3) == 0);
    for (size_t i = sizeof *thread; i < RING_MIN_BYTES; i++)
        CHECK_INT(data[i], ==, 0xff);
    free(rings.header);
}

TEST(a_preempted_handler_counts_as_the_mean_of_the_others) {
    struct handler_cost since = {1000, 10, 5}, now = {1000 + 80 * 500, 10 + 100, 5 + 20};
    CHECK_INT(handler_cost_ns(&since, &now), ==, 100 * 500);
    now = (struct handler_cost){1000, 10 + 3, 5 + 3};
    CHECK_INT(handler_cost_ns(&since, &now), ==, 3 * HANDLER_PREEMPTED_NS);
    CHECK_INT(handler_cost_ns(&since, &since), ==, 0);
}

static struct ring_set shared;

static void *produce(void *tid) {
    for (int i = 0; i < EACH; i++)
        ring_push_unseen(&shared, (uint32_t)(uintptr_t)tid * 2, 1, RING_UNSEEN_SHORT);
    return NULL;
}

TEST(ring_many_producers_lose_only_what_is_counted) {
    pthread_t threads[PRODUCERS];
    uint64_t pads = 0, taken = 0;
    shared = make_rings(2, RING_MIN_BYTES);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)i);
    for (int quiet = 0; quiet < 200;) {
        int now = take_all(&shared, 0, &pads);
        taken += (uint64_t)now;
        quiet = now ? 0 : quiet + 1;
        usleep(now ? 0 : 1000);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    taken += (uint64_t)take_all(&shared, 0, &pads);
    uint64_t dropped =
        shared.header->drops[RING_DROP_FULL] + shared.header->drops[RING_DROP_CONTENDED];
    CHECK_INT(taken + dropped, ==, PRODUCERS * EACH);
    CHECK_INT(dropped, ==, shared.header->dropped_ns);
    free(shared.header);
}

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

/* ---- Periods ---- */

TEST(phases_are_uniform_and_periods_keep_their_mean) {
    const uint64_t period = 10101010;
    CHECK_INT(sampled_threads_open(), ==, 0);
    double phases = 0, periods = 0;
    int buckets[10] = {0};
    const int rounds = 20000;
    for (int i = 0; i < rounds; i++) { /* each from a fresh thread: as short threads see it */
        uint64_t mask;
        sampled_threads_lock(&mask);
        struct sampled_thread *thread = sampled_threads_add(1000 + (uint32_t)i % 50);
        CHECK(thread);
        uint64_t phase = period_phase(thread, period), dithered = period_dither(thread, period);
        sampled_threads_remove(thread);
        sampled_threads_unlock(&mask);
        CHECK(phase >= 1 && phase <= period);
        CHECK(dithered > period / 2 && dithered <= period + period / 2 + 1);
        phases += (double)phase;
        periods += (double)dithered;
        buckets[(phase - 1) * 10 / period]++;
    }
    CHECK_NEAR(phases / rounds / (double)period, 0.5, 0.02);
    CHECK_NEAR(periods / rounds / (double)period, 1.0, 0.02);
    for (int i = 0; i < 10; i++)
        CHECK_NEAR(buckets[i], rounds / 10, 250); /* sigma 42 */
}

/* Sum of weights of a thread that burns so much and ends. */
static uint64_t weights_of(struct sampled_thread *thread, uint64_t burned, uint64_t nominal) {
    uint64_t sum = 0;
    period_begin(thread, nominal);
    for (uint64_t at = period_phase(thread, thread->period_ns); at <= burned;
         at += thread->period_ns) {
        sum += thread->period_ns;
        period_renew(thread, nominal);
    }
    return sum;
}

/* E14, E18: many threads of a few periods each are many unfinished periods. */
TEST(threads_of_any_length_are_counted_without_bias) {
    const uint64_t nominal = 1000000;
    const uint64_t lengths[] = {100000, 700000, 1460000, 3200000, 10500000, 21000000};
    const int threads = 100000;
    struct sampled_thread thread = {.random = 88172645463325252u};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double sum = 0;
        for (int k = 0; k < threads; k++)
            sum += (double)weights_of(&thread, lengths[i], nominal);
        /* A thread's sum is off by less than a period, some 0.5 on average: sigma of the mean is
         * 0.0016 periods. */
        CHECK_NEAR(sum / threads / (double)nominal, (double)lengths[i] / (double)nominal, 0.008);
    }
}

/* Sum of weights of a thread whose ticks see only 9 of 10 parts of its CPU time. */
static uint64_t drifting_weights_of(struct sampled_thread *thread, uint64_t burned,
                                    uint64_t nominal) {
    period_begin(thread, nominal);
    uint64_t sum = 0, seen = period_phase(thread, thread->period_ns),
             credit = thread->period_ns - seen;
    thread->is_first_tick = true;
    while (seen + seen / 9 <= burned) {
        uint64_t due = seen + seen / 9 + credit - sum, periods = period_count(thread, due);
        sum += periods * thread->period_ns;
        if (periods > 0)
            period_renew(thread, nominal);
        thread->is_first_tick = false;
        seen += periods > 0 ? thread->period_ns : thread->period_ns - due; /* the rest, then */
    }
    return sum;
}

/* E18: what the clock counts and the timer does not is made up for, on average at any moment. */
TEST(drift_between_clock_and_ticks_is_made_up_for) {
    const uint64_t nominal = 1000000;
    const uint64_t lengths[] = {1460000, 3200000, 10500000, 42000000};
    const int threads = 100000;
    struct sampled_thread thread = {.random = 88172645463325252u};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double sum = 0;
        for (int k = 0; k < threads; k++)
            sum += (double)drifting_weights_of(&thread, lengths[i], nominal);
        /* Not quite: the last period lasts a tenth longer than the first one was thought to. */
        CHECK_NEAR(sum / threads / (double)nominal, (double)lengths[i] / (double)nominal, 0.1);
    }
}

/* ---- Seats ---- */

TEST(seats_are_found_by_tid_and_run_out) {
    uint64_t mask;
    CHECK_INT(sampled_threads_open(), ==, 0);
    sampled_threads_lock(&mask);
    CHECK(!handler_find_thread(4242));
    CHECK(!sampled_threads_add(HANDLER_TIDS)); /* no such tid can be */
    uint32_t taken = 0;
    while (sampled_threads_add(taken + 1))
        taken++;
    CHECK_INT(taken, ==, SAMPLED_THREADS_MAX);
    CHECK_INT(sampled_threads_count(), ==, SAMPLED_THREADS_MAX);
    struct sampled_thread *thread = handler_find_thread(4242);
    CHECK(thread && thread->tid == 4242);
    uint32_t incarnation = thread->incarnation;
    sampled_threads_remove(thread);
    CHECK(!handler_find_thread(4242));
    thread = sampled_threads_add(777777);
    CHECK(thread && thread->incarnation != incarnation);
    sampled_threads_remove(thread);
    for (uint32_t tid = 1; tid <= taken; tid++)
        if (handler_find_thread(tid))
            sampled_threads_remove(handler_find_thread(tid));
    CHECK_INT(sampled_threads_count(), ==, 0);
    sampled_threads_trim();
    sampled_threads_unlock(&mask);
}

/* ---- Bounds ---- */

TEST(bounds_probe_stops_at_the_first_page_that_cannot_be_read) {
    char *pages = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t start = (uint64_t)pages, far = start + 64 * PAGE;
    CHECK(mprotect(pages + 5 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK_INT(bounds_probe(start + 100, far), ==, start + 5 * PAGE);
    CHECK_INT(bounds_probe(start + 100, start + 2 * PAGE), ==, start + 2 * PAGE);
    CHECK_INT(bounds_probe(start + 5 * PAGE + 8, far), ==, start + 5 * PAGE + 8);
    CHECK_INT(bounds_probe(64, far), ==, 64);
    CHECK(munmap(pages, 8 * PAGE) == 0);
    CHECK_INT(bounds_probe(start, far), ==, start);
    CHECK_INT(bounds_probe(1ull << 60, UINT64_MAX), ==, 1ull << 60);
}

/* ---- Chain ---- */

TEST(chained_actions_are_read_as_they_were_written) {
    struct chain_action action = {(uint64_t)chain_read, 0x1234, 0xff00ff00}, read;
    chain_write(&chains[CHAIN_PROF], &action);
    read = chain_read(&chains[CHAIN_PROF]);
    CHECK(memcmp(&read, &action, sizeof read) == 0);
}
