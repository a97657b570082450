/* SPDX-License-Identifier: Apache-2.0
 *
 * What a refusal of the kernel means for later captures. */
#include "tests/unit/engine/host/fake_rings.h"

static bool has_no_stream(struct bench *bench) {
    return !bench->engine->host->streams;
}

static bool has_opened_all(struct bench *bench) {
    return fake.options.pid_count == 0;
}

/* As when root lowers kernel.perf_event_paranoid while sonded runs. */
TEST(a_refusal_of_all_processes_is_tried_again_after_some_seconds) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = true;
    const struct engine_selector child = {.pid = bench.child};
    uint64_t before_ns = now_monotonic_ns();
    bench_begin(&bench, child);
    uint64_t until_ns = bench.engine->host->all_refused_until_ns;
    CHECK(until_ns >= before_ns + ENGINE_RIGHTS_NS);
    CHECK(until_ns <= now_monotonic_ns() + ENGINE_RIGHTS_NS);
    (void)bench_end(&bench);
    bench_wait(&bench, has_no_stream);
    fake.refuses_all = false;
    bench.engine->host->all_refused_until_ns = now_monotonic_ns(); /* that time is over */
    bench_begin(&bench, child);
    bench_wait(&bench, has_opened_all);
    bench_finish(&bench);
}
