/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of growth of this process, whose page faults the test makes up. */
#include "tests/unit/engine/host/fake_rings.h"

#include "service/engine/capture/growth_state.h"
#include "service/engine/loop/loop.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  ((size_t)4096)
#define PAGES ((size_t)2048)

#define OTHER_USER 54321u

static pid_t own_child; /* of the bench, which ends it */

static struct growth *growth_of(struct bench *bench) {
    const struct target *target = bench_target(bench);
    return target && target->captures ? target->captures->growth : NULL;
}

static bool has_looked(struct bench *bench) {
    return growth_of(bench) && growth_of(bench)->step == GROWTH_READY;
}

static bool is_stopping(struct bench *bench) {
    return bench_target(bench)->clock == CLOCK_STOPPING;
}

static bool has_ended(struct bench *bench) {
    return collect_has_ended(&bench->collected);
}

static void begin(struct bench *bench) {
    bench_init(bench);
    bench->step_ns = 1000;
    own_child = bench->child;
    bench->child = getpid();
    bench_begin_event(bench, SONDE_GROWTH, 1);
    CHECK_INT(fake.options.event, ==, SONDE_GROWTH);
    CHECK(fake.options.is_one);
    CHECK_INT(fake.options.stack_bytes, ==, HOST_LEAK_STACK);
    bench_wait(bench, has_looked);
}

static void finish(struct bench *bench) {
    bench->child = own_child;
    bench_finish(bench);
}

static uint8_t *map(void) {
    uint8_t *memory =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    return memory;
}

/* A fault without a stack, which needs no table. */
static void fault(struct bench *bench, const uint8_t *address, uint64_t weight) {
    struct host_record *record = push_record(bench, HOST_SAMPLE, getpid(), getpid());
    record->sample = (struct host_sample){
        .weight_ns = weight, .address = (uintptr_t)address, .abi = HOST_ABI_NONE};
}

/* Bytes below a frame, the `depth`-th from the root. */
static int64_t below(const struct sonde_profile *profile, uint32_t depth, const char *frame) {
    int64_t total = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (sample.location_count <= depth)
            continue;
        const struct sonde_location *location =
            sonde_profile_location(profile, sample.locations[sample.location_count - 1 - depth]);
        const struct sonde_function *function =
            location->line_count ? sonde_profile_function(profile, location->lines[0].function)
                                 : NULL;
        const char *name = function ? sonde_profile_text(profile, function->name) : "";
        total += strcmp(name, frame) == 0 ? sample.values[1] : 0;
    }
    return total;
}

TEST(what_grew_is_below_its_kind_of_memory_and_of_the_fault_that_brought_it) {
    struct bench bench;
    begin(&bench);
    uint8_t *kept = map(), *freed = map();
    for (size_t i = 0; i < PAGES; i++) {
        kept[i * PAGE] = freed[i * PAGE] = 1;
        fault(&bench, kept + i * PAGE, 1);
        fault(&bench, freed + i * PAGE, 1);
    }
    munmap(freed, PAGES * PAGE);
    const struct sonde_profile *profile = bench_end(&bench);
    int64_t bytes = PAGES * PAGE;
    CHECK_STR(sonde_profile_type(profile, 1).type, "growth");
    CHECK_STR(sonde_profile_type(profile, 1).unit, "bytes");
    CHECK_INT(below(profile, 0, "[anonymous memory]"), >=, bytes);
    CHECK_INT(below(profile, 1, "[no stack]"), >=, bytes);
    CHECK_INT(below(profile, 1, "[no stack]"), <, bytes + bytes / 4);
    CHECK(strstr(collect_comment(profile, "growth: "), "; RssAnon changed by +"));
    munmap(kept, PAGES * PAGE);
    finish(&bench);
}

TEST(with_too_many_faults_a_random_half_stands_for_all) {
    struct bench bench;
    begin(&bench);
    uint8_t *memory = map();
    for (size_t i = 0; i < GROWTH_MAX_SAMPLES + PAGES; i++) {
        memory[i % PAGES * PAGE] = 1;
        fault(&bench, memory + i % PAGES * PAGE, 1);
    }
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK(strstr(collect_comment(profile, "growth limit: "), "1 in 2 of the sampled page faults"));
    CHECK_INT(below(profile, 1, "[no stack]"), >=, PAGES * PAGE * 3 / 4);
    CHECK_INT(below(profile, 0, "[anonymous memory]"), >=, PAGES * PAGE);
    munmap(memory, PAGES * PAGE);
    finish(&bench);
}

TEST(a_process_whose_pages_may_not_be_read_is_refused_with_what_to_do) {
    struct bench bench;
    begin(&bench);
    growth_of(&bench)->err = SONDE_PERMISSION_DENIED;
    growth_of(&bench)->step = GROWTH_DONE;
    engine_capture_finish(bench.capture);
    bench_wait(&bench, has_ended);
    CHECK_INT(bench.collected.err, ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(bench.collected.diag.text, "/pagemap, which this sonded may not read"));
    CHECK_INT(bench.collected.profile_count, ==, 0);
    finish(&bench);
}

TEST(looks_that_do_not_fit_into_the_share_of_the_user_are_refused) {
    struct bench bench;
    struct memory_share full = {.uid = OTHER_USER};
    begin(&bench);
    struct growth *growth = growth_of(&bench);
    CHECK_INT(growth->looks_share.bytes, >=,
              2 * growth->before.count * sizeof *growth->before.chunks); /* of both looks */
    memory_share_finish(&growth->looks_share);
    growth->looks_share = full;
    CHECK(memory_share_take(&full, MEMORY_USER));
    engine_capture_finish(bench.capture);
    bench_wait(&bench, has_ended);
    CHECK_INT(bench.collected.err, ==, SONDE_OUT_OF_MEMORY);
    CHECK(strstr(bench.collected.diag.text, "do not fit into the memory that sonded keeps for its "
                                            "user (64 MiB): end other captures of that user"));
    memory_share_finish(&full);
    finish(&bench);
}

/* When the failing one ends, the other one waits for the clock. */
TEST(a_capture_that_fails_does_not_take_another_one_with_it) {
    struct bench bench;
    struct collected collected = {0};
    struct engine_capture *other;
    struct sonde_diag diag = {0};
    begin(&bench);
    growth_of(&bench)->err = SONDE_IO;
    growth_of(&bench)->step = GROWTH_DONE;
    engine_capture_finish(bench.capture);
    bench_wait(&bench, is_stopping);
    collect_init(&collected);
    struct engine_cpu_spec spec = {.target.pid = getpid(), .event = SONDE_GROWTH, .every = 1};
    spec.frequency_hz = 1000;
    CHECK_INT(engine_capture_cpu(bench.engine, &spec, &collect_events, &collected, &other, &diag),
              ==, SONDE_OK);
    bench_wait(&bench, has_ended);
    CHECK_INT(bench.collected.err, ==, SONDE_IO);
    while (!collect_has_ended(&collected) && !has_looked(&bench))
        (void)engine_round(bench.engine, 5);
    engine_capture_finish(other);
    while (!collect_has_ended(&collected))
        (void)engine_round(bench.engine, 5);
    CHECK_STR(collected.diag.text, "");
    CHECK_INT(collected.err, ==, SONDE_OK);
    engine_capture_release(other);
    collect_finish(&collected);
    finish(&bench);
}

static void refused(struct engine_cpu_spec spec, const char *text) {
    struct bench bench;
    struct sonde_diag diag = {0};
    bench_init(&bench);
    spec.target.pid = bench.child;
    spec.frequency_hz = 99;
    spec.event = SONDE_GROWTH;
    CHECK_INT(engine_capture_cpu(bench.engine, &spec, &collect_events, &bench.collected,
                                 &bench.capture, &diag),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, text));
    bench_finish(&bench);
}

TEST(growth_is_of_one_process_and_has_no_windows) {
    refused((struct engine_cpu_spec){.target.all = true},
            "growth can only be taken of one process");
    refused((struct engine_cpu_spec){.window_ms = 1000}, "one profile at its end");
}
