/* SPDX-License-Identifier: Apache-2.0
 *
 * What one tick costs in the handler at depth 40, without the kernel's part of the signal: this
 * program calls the handler with the cookie of its own thread, as perf's signal would. For counts
 * that a busy machine does not change:
 *
 *     valgrind --tool=callgrind --toggle-collect=tick_on_trap handler_bench
 *     strace -c handler_bench
 *
 * Misses of the walk cache tell a slower handler from a binary whose pcs happen to share a slot: a
 * pair of frames that evict each other costs two misses per tick.
 *
 * HANDLER_TICKS sets the number of ticks. The thread has no perf descriptor, so changing the period
 * (every 3 to 6 ticks) costs one ioctl less than in a real target. */
#include "service/guest/maps/module_map.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/push.h"
#include "service/guest/signal/tick.h"
#include "service/guest/signal/walk.h"

#include "tests/bench/walk/stacks.h"
#include "tests/unit/check.h"
#include "tests/unit/guest/fake_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PERIOD_NS 1000000ull
#define BYTES     (RING_PAGE * 2 + RING_MAX_BYTES)

static struct sampled_thread *thread;
static uint64_t ticks, samples;

static void add_table(const struct maps_module *module) {
    sonde_guest_v1_Mapping mapping = {.start = module->start,
                                      .end = module->end,
                                      .offset = module->offset,
                                      .inode = module->inode};
    uint64_t bias, bytes;
    snprintf(mapping.path, sizeof mapping.path, "%s", module->path);
    int fd = fake_table(&mapping, &bias, &bytes);
    if (fd >= 0)
        CHECK_INT(module_map_add_table(1, module->start, bias, bytes, fd), ==, 0);
}

static void start_sampling(void) {
    static struct maps maps;
    uint64_t mask;
    CHECK_INT(sampled_threads_open(), ==, 0);
    CHECK_INT(maps_init(&maps), ==, 0);
    CHECK_INT(maps_read(&maps), ==, 0);
    CHECK_INT(module_map_set_modules(&maps, 1), ==, 0);
    for (uint32_t i = 0; i < maps.module_count; i++)
        add_table(&maps.modules[i]);
    CHECK_INT(module_map_publish(), ==, 0);
    handler_state.areas = maps.areas;
    handler_state.pid = (uint32_t)getpid();
    handler_state.main_stack = maps.main_stack;
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    handler_state.rings = (struct ring_set){memory, 1, RING_MAX_BYTES};
    handler_state.period_ns = PERIOD_NS;
    handler_state.max_depth = RING_MAX_DEPTH;
    handler_state.wake_fd = -1;
    sampled_threads_lock(&mask);
    thread = sampled_threads_add((uint32_t)syscall(SYS_gettid));
    sampled_threads_unlock(&mask);
    CHECK(thread);
    thread->clock = SAMPLE_CLOCK_PERF;
    thread->period_ns = thread->nominal_ns = PERIOD_NS;
    thread->base_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    handler_state.sampling = true;
}

/* Each tick comes one period after the last one by the wall clock, which is the only clock that the
 * handler usually reads. */
static void tick_away(void *unused) {
    siginfo_t info = {.si_signo = SIGTRAP, .si_code = 6}; /* TRAP_PERF */
    uint64_t cookie = handler_cookie(thread->incarnation, sampled_threads_index(thread));
    memcpy((char *)&info + 24, &cookie, sizeof cookie); /* si_perf_data, behind si_addr */
    ucontext_t context;
    getcontext(&context);
    struct ring_control *ring = ring_control_of(&handler_state.rings, 0);
    for (uint64_t i = 0; i < ticks; i++) {
        uint64_t before = ring->head;
        thread->last_ns = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC) - PERIOD_NS;
        /* if the handler reads the CPU clock, one period has passed by that clock, too */
        thread->base_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - (int64_t)thread->counted_ns -
                          (int64_t)thread->period_ns;
        tick_on_trap(SIGTRAP, &info, &context);
        samples += ring->head != before;
        for (; before < ring->head; before += 8) /* as sonded does */
            *(uint64_t *)((char *)ring + RING_PAGE + (before & (RING_MAX_BYTES - 1))) = 0;
        ring->tail = ring->head;
    }
}

TEST(a_tick_at_depth_40) {
    const char *asked = getenv("HANDLER_TICKS");
    ticks = asked ? strtoull(asked, NULL, 10) : 100000;
    start_sampling();
    stacks_enter(40, 1, tick_away, NULL);
    CHECK_INT(samples, ==, ticks);
    struct handler_cost handlers = sampled_threads_handler_cost();
    uint64_t timed = handlers.runs - handlers.preempted;
    printf("%lu ticks: %.0f ns each by the handler's own account, %lu preempted, %.2f cache misses "
           "per tick\n",
           ticks, (double)handlers.ns / (double)(timed ? timed : 1), handlers.preempted,
           (double)thread->cache->misses / (double)ticks);
}
