/* SPDX-License-Identifier: Apache-2.0
 *
 * Real rings whose state this test overwrites. */
#include "service/host/rings/rings.h"
#include "tests/unit/check.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct seen {
    uint64_t samples, lost;
};

static void on_record(void *context, const struct host_record *record) {
    struct seen *seen = context;
    seen->samples += record->kind == HOST_SAMPLE;
    seen->lost += record->kind == HOST_LOST ? record->lost : 0;
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Samples this process until it has used 50 ms. */
static struct rings *sample_self(void) {
    pid_t self = getpid();
    struct rings_options options = {.pids = &self,
                                    .pid_count = 1,
                                    .period_ns = 1000000,
                                    .stack_bytes = HOST_MIN_STACK,
                                    .ring_bytes = 1 << 18};
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rings_open(&options, &rings, &diag);
    if (err)
        check_skip("perf is refused here: %s", sonde_diag_text(&diag, err));
    rings_start(rings);
    for (uint64_t until = cpu_ns() + 50000000; cpu_ns() < until;) {
    }
    rings_stop(rings);
    return rings;
}

/* Moves the end of each ring. The kernel lets nobody write to the records themselves. */
static uint32_t move_ends(uint64_t by) {
    char line[512];
    uint32_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start;
        if (!strstr(line, "[perf_event]") || sscanf(line, "%lx-", &start) != 1)
            continue;
        ((struct perf_event_mmap_page *)start)->data_head += by;
        count++;
    }
    fclose(maps);
    return count;
}

TEST(a_ring_that_breaks_its_rules_is_emptied_and_counted) {
    struct rings *rings = sample_self();
    struct seen seen = {0};
    struct rings_counts counts;
    uint32_t moved = move_ends(1 << 20); /* more than a ring holds */
    CHECK_INT(moved, >, 0);
    CHECK(!rings_drain(rings, 0, on_record, &seen, NULL));
    rings_counts(rings, &counts);
    CHECK_INT(seen.samples, ==, 0);
    CHECK_INT(counts.invalid, ==, moved);
    CHECK_INT(seen.lost, ==, moved);
    CHECK(!rings_drain(rings, 0, on_record, &seen, NULL)); /* empty */
    CHECK_INT(seen.lost, ==, moved);
    rings_close(rings);
}
