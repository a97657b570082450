/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted events, from rings that the test writes. This machine may not have them. */
#include "tests/unit/engine/host/fake_rings.h"

#include "service/engine/loop/loop.h"

#include <string.h>

/* The sum of a sample type over the stacks whose root has the name; NULL = all. */
static int64_t sum(const struct sonde_profile *profile, size_t type, const char *root) {
    int64_t total = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        const struct sonde_location *location =
            sonde_profile_location(profile, sample.locations[sample.location_count - 1]);
        const struct sonde_function *function =
            location->line_count ? sonde_profile_function(profile, location->lines[0].function)
                                 : NULL;
        const char *name = function ? sonde_profile_text(profile, function->name) : "";
        total += !root || strcmp(name, root) == 0 ? sample.values[type] : 0;
    }
    return total;
}

/* Samples without a stack, which need no table. */
static void push(struct bench *bench, uint32_t samples, uint64_t each) {
    for (uint32_t i = 0; i < samples; i++) {
        struct host_record *record = push_record(bench, HOST_SAMPLE, bench->child, bench->child);
        record->sample = (struct host_sample){.weight_ns = each, .abi = HOST_ABI_NONE};
    }
}

TEST(a_value_is_the_number_of_events_and_samples_are_counted_beside_it) {
    struct bench bench;
    bench_init(&bench);
    bench_begin_event(&bench, SONDE_PAGE_FAULTS, 5);
    CHECK_INT(fake.options.event, ==, SONDE_PAGE_FAULTS);
    CHECK_INT(fake.options.every, ==, 5);
    CHECK_INT(fake.options.pid_count, ==, 1); /* others pay nothing for it */
    push(&bench, 16, 5);
    fake.total = 80;
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_STR(sonde_profile_type(profile, 0).type, "samples");
    CHECK_STR(sonde_profile_type(profile, 1).type, "page_faults");
    CHECK_STR(sonde_profile_type(profile, 1).unit, "count");
    CHECK_INT(sum(profile, 0, NULL), ==, 16);
    CHECK_INT(sum(profile, 1, NULL), ==, 80);
    CHECK_INT(sonde_profile_info(profile)->period, ==, 5);
    CHECK_STR(sonde_profile_info(profile)->period_type.unit, "count");
    bench_finish(&bench);
}

TEST(events_without_a_sample_are_a_note_so_that_the_sum_is_the_kernels) {
    struct bench bench;
    bench_init(&bench);
    bench_begin_event(&bench, SONDE_PAGE_FAULTS, 1);
    push(&bench, 30, 1);
    fake.total = 100;
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_INT(sum(profile, 1, NULL), ==, 100);
    CHECK_INT(sum(profile, 1, "[not sampled]"), ==, 70);
    bench_finish(&bench);
}

TEST(at_a_rate_a_burst_makes_the_period_longer) {
    struct bench bench;
    bench_init(&bench);
    bench_begin_event(&bench, SONDE_MINOR_FAULTS, 0);
    CHECK_INT(fake.options.every, ==, 1);
    fake.total = 1000000000;
    while (fake.period_ns <= 1)
        (void)engine_round(bench.engine, 5);
    CHECK_INT(fake.period_ns, >, 1);
    push(&bench, 3, fake.period_ns);
    uint64_t every = fake.period_ns;
    fake.total = 3 * every;
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_INT(sum(profile, 0, NULL), ==, 3);
    CHECK_INT(sum(profile, 1, NULL), ==, 3 * every);
    CHECK_INT(sonde_profile_info(profile)->period, ==, 1);
    bench_finish(&bench);
}

/* The processor chooses the period, and each sample says how many events it stands for. */
TEST(events_of_the_processor_have_the_weights_that_it_says) {
    struct bench bench;
    bench_init(&bench);
    bench_begin_event(&bench, SONDE_CYCLES, 0);
    CHECK_INT(fake.options.event, ==, SONDE_CYCLES);
    CHECK_INT(fake.options.every, ==, 0);
    CHECK_INT(fake.options.period_ns, ==, MS);
    push(&bench, 1, 2400000);
    push(&bench, 1, 2600001);
    fake.total = 5000001;
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_STR(sonde_profile_type(profile, 1).type, "cycles");
    CHECK_INT(sum(profile, 0, NULL), ==, 2);
    CHECK_INT(sum(profile, 1, NULL), ==, 5000001);
    bench_finish(&bench);
}

/* More than 2^40, as an hour of cycles is. */
TEST(sums_of_cycles_are_not_limited_to_what_a_capture_of_time_needs) {
    struct bench bench;
    bench_init(&bench);
    bench_begin_event(&bench, SONDE_CYCLES, 0);
    push(&bench, 8, 1ull << 39);
    fake.total = 1ull << 42;
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_INT(sum(profile, 1, NULL), ==, 1ll << 42);
    bench_finish(&bench);
}

TEST(a_counted_event_and_cpu_time_of_a_process_are_two_targets) {
    struct bench bench;
    struct engine_capture *first;
    struct collected collected;
    bench_init(&bench);
    collect_init(&collected);
    bench_begin(&bench, (struct engine_selector){.pid = bench.child});
    uint32_t opened = fake.opened;
    first = bench.capture;
    CHECK_INT(bench_target(&bench)->host->event.id, ==, SONDE_ON_CPU);
    struct engine_cpu_spec spec = {.target = {.pid = bench.child},
                                   .frequency_hz = 1000,
                                   .event = SONDE_PAGE_FAULTS,
                                   .every = 1};
    CHECK_INT(
        engine_capture_cpu(bench.engine, &spec, &collect_events, &collected, &bench.capture, NULL),
        ==, SONDE_OK);
    while (fake.opened == opened)
        (void)engine_round(bench.engine, 5);
    CHECK_INT(bench_target(&bench)->host->event.id, ==, SONDE_PAGE_FAULTS);
    CHECK_INT(bench_target(&bench)->next->host->event.id, ==, SONDE_ON_CPU);
    engine_capture_cancel(first);
    engine_capture_cancel(bench.capture);
    while (bench.engine->captures_running > 0)
        (void)engine_round(bench.engine, 5);
    engine_capture_release(first);
    bench_finish(&bench);
    collect_finish(&collected);
}

static void refused(struct engine_cpu_spec spec, const char *text) {
    struct bench bench;
    struct sonde_diag diag = {0};
    bench_init(&bench);
    spec.target.pid = bench.child;
    spec.frequency_hz = 99;
    CHECK_INT(engine_capture_cpu(bench.engine, &spec, &collect_events, &bench.collected,
                                 &bench.capture, &diag),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, text));
    bench_finish(&bench);
}

TEST(events_are_refused_from_the_guest) {
    refused((struct engine_cpu_spec){.event = SONDE_PAGE_FAULTS, .source = ENGINE_GUEST},
            "only sampled from outside");
}

TEST(a_period_needs_a_counted_event_and_has_a_limit) {
    refused((struct engine_cpu_spec){.every = 1}, "only counted events");
    refused((struct engine_cpu_spec){.event = SONDE_CYCLES, .every = (1ull << 40) + 1},
            "must be 1 to 1099511627776");
}

/* A sample of every 64th event of a program with 64 events in a round always meets the same. */
TEST(a_period_is_a_random_prime_close_to_what_was_asked) {
    uint64_t different = 0, last = 0;
    for (uint64_t random = 0; random < 1000; random++) {
        uint64_t every = counted_prime(64, random);
        CHECK_INT(every, >=, 56);
        CHECK_INT(every, <=, 79);
        for (uint64_t i = 2; i < every; i++)
            CHECK(every % i != 0);
        different += every != last;
        last = every;
    }
    CHECK_INT(different, >, 100);
    for (uint64_t every = 1; every <= 7; every++)
        CHECK_INT(counted_prime(every, 12345), ==, every);
    CHECK_INT(counted_prime(1ull << 40, 4711) % 2, ==, 1);
    CHECK_INT(counted_prime(1ull << 40, UINT32_MAX), <, 1ull << 40);
}
