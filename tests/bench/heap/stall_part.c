/* SPDX-License-Identifier: Apache-2.0
 *
 * How long threads that allocate are stalled by snapshots of 100,000 stacks (H4): with Sonde's
 * sampler, whose table sonded reads without the program, and with jemalloc's prof.dump, which runs
 * in the program with the allocator's locks held. Each is first measured without snapshots, which
 * shows the effect of preemption. */
#include "tests/bench/walk/stacks.h"
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <unistd.h>

#define SECONDS 3

struct kind {
    const char *name, *conf, *program;
    bool raw;
};

static void print_head(const char *name) {
    printf("\n%s\n"
           "  us a malloc and free pair   millions      p99    p99.9  p99.9999     worst    "
           "waited  waits > 1 ms\n",
           name);
}

/* The program prints the rest of the row. */
static void end_row(struct stage *stage, char threads, unsigned snapshots) {
    printf("  threads: %c, snapshots: %3u    ", threads, snapshots);
    fflush(stdout);
    stage_tell(stage, 'e');
}

static void measure(struct stage *stage, const struct kind *kind, char threads) {
    stage_tell(stage, threads);
    sleep(SECONDS);
    end_row(stage, threads, 0);
    stage_tell(stage, threads);
    unsigned snapshots = 0;
    uint64_t end = stacks_now_ns() + SECONDS * 1000000000ull;
    for (; snapshots < 5 || stacks_now_ns() < end; snapshots++) {
        struct got got =
            stage_get(stage, (struct engine_heap_query){.raw = kind->raw, .require_active = true});
        CHECK_INT(got.err, ==, SONDE_OK);
        got_finish(&got);
    }
    end_row(stage, threads, snapshots);
}

static void run(const struct kind *kind) {
    const char *const command[] = {kind->program, NULL};
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096};
    struct stage stage;
    stage_init(&stage, kind->conf, command);
    CHECK_INT(stage_ask(&stage, on).err, ==, SONDE_OK);
    stage_tell(&stage, 'h');
    print_head(kind->name);
    measure(&stage, kind, '1');
    measure(&stage, kind, '8');
    stage_finish(&stage);
}

TEST(stalls) {
    static const struct kind ours = {.name = "Sonde's sampler, snapshots of 100,000 stacks",
                                     .program = "tests/bench/heap/holder"};
    static const struct kind theirs = {.name = "jemalloc, prof.dump of 100,000 stacks",
                                       .conf = "prof:true,prof_active:false,lg_prof_sample:12",
                                       .program = "tests/bench/heap/holder_jemalloc",
                                       .raw = true};
    run(&ours);
    run(&theirs);
    printf("  goal: p99.9 <= 1 ms with Sonde's sampler; \"waited\": the longest pair that was not "
           "only preempted\n");
}
