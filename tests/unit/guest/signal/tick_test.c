/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick handler, called like a function: how much stack it uses, and what it does with late
 * cookies, foreign signals, a full ring, a nested tick, and without a map or a cache. */
#include "service/guest/maps/module_map.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/chain.h"
#include "service/guest/signal/push.h"
#include "service/guest/signal/tick.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES 65536
#define PATTERN     0xa5

static struct sampled_thread *thread;

/* Rings, a module map of this process without tables, and an entry for this thread. */
static void start_capture(void) {
    static struct maps maps;
    uint64_t mask;
    if (thread)
        return;
    CHECK_INT(sampled_threads_open(), ==, 0);
    CHECK_INT(maps_init(&maps), ==, 0);
    CHECK_INT(maps_read(&maps), ==, 0);
    CHECK_INT(module_map_set_modules(&maps, 3), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    handler_state.areas = maps.areas;
    handler_state.pid = (uint32_t)getpid();
    handler_state.main_stack = maps.main_stack;
    static _Alignas(RING_PAGE) char memory[2 * RING_PAGE + RING_MIN_BYTES];
    handler_state.rings = (struct ring_set){(struct ring_header *)memory, 1, RING_MIN_BYTES};
    handler_state.period_ns = 1000000;
    handler_state.max_depth = RING_MAX_DEPTH;
    handler_state.wake_fd = -1;
    sampled_threads_lock(&mask);
    thread = sampled_threads_add((uint32_t)syscall(SYS_gettid));
    sampled_threads_unlock(&mask);
    CHECK(thread);
    thread->period_ns = thread->nominal_ns = 1000000;
    thread->clock = SAMPLE_CLOCK_TIMER;
    handler_state.sampling = true;
}

static uint64_t pushed(void) {
    return ring_control_of(&handler_state.rings, 0)->head;
}

static void tick_with(uint64_t cookie) {
    siginfo_t info = {.si_signo = SIGRTMAX, .si_code = SI_TIMER};
    ucontext_t context;
    info.si_value.sival_ptr = (void *)cookie;
    getcontext(&context);
    /* exactly one period is due */
    thread->period_ns = 1000000;
    thread->restart_ns = (handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - 1000000) | 1;
    tick_on_timer(SIGRTMAX, &info, &context);
}

static uint64_t own_cookie(void) {
    return handler_cookie(thread->incarnation, sampled_threads_index(thread));
}

static ucontext_t home, patterned;

static void tick_on_patterned_stack(void) {
    tick_with(own_cookie());
}

/* E6. */
TEST(a_tick_uses_less_than_two_kilobytes_of_stack) {
    start_capture();
    unsigned char *stack = malloc(STACK_BYTES);
    for (int round = 0; round < 2; round++) { /* the first also binds symbols and finds the stack */
        memset(stack, PATTERN, STACK_BYTES);
        getcontext(&patterned);
        patterned.uc_stack.ss_sp = stack;
        patterned.uc_stack.ss_size = STACK_BYTES;
        patterned.uc_link = &home;
        makecontext(&patterned, tick_on_patterned_stack, 0);
        uint64_t before = pushed();
        swapcontext(&home, &patterned);
        CHECK_INT(pushed(), >, before);
    }
    int untouched = 0;
    while (stack[untouched] == PATTERN)
        untouched++;
    int harness_bytes = (int)(sizeof(ucontext_t) + sizeof(siginfo_t)) +
                        256; /* of tick_with, which calls the handler */
    CHECK_INT(STACK_BYTES - untouched - harness_bytes, <, 2048);
    CHECK_INT(STACK_BYTES - untouched - harness_bytes, >, 512); /* it did run there */
    free(stack);
}

TEST(a_tick_preserves_errno) {
    start_capture();
    errno = 4711;
    tick_with(own_cookie());
    CHECK_INT(errno, ==, 4711);
}

/* E8. */
TEST(a_late_cookie_is_ignored) {
    start_capture();
    uint64_t before = pushed();
    tick_with(handler_cookie(thread->incarnation + 1, sampled_threads_index(thread)));
    tick_with(handler_cookie(thread->incarnation, sampled_threads_index(thread) + 1));
    tick_with(handler_cookie(0, 0xffff));
    handler_state.sampling = false;
    tick_with(own_cookie());
    handler_state.sampling = true;
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(thread->in_handler, ==, 0);
    tick_with(own_cookie());
    CHECK_INT(pushed(), >, before);
}

TEST(a_tick_inside_a_tick_is_counted) {
    start_capture();
    uint64_t before = pushed(), drops = handler_state.rings.header->drops[RING_DROP_NESTED];
    thread->in_handler = 1;
    tick_with(own_cookie());
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(handler_state.rings.header->drops[RING_DROP_NESTED], ==, drops + 1);
    thread->in_handler = 0;
}

TEST(a_full_ring_drops_and_counts_and_the_thread_goes_on) {
    start_capture();
    for (int i = 0; i < 2000; i++)
        tick_with(own_cookie());
    CHECK_INT(handler_state.rings.header->drops[RING_DROP_FULL], >, 100);
    CHECK_INT(handler_state.rings.header->dropped_ns, >=, 100 * 1000000ull);
}

static struct { uint8_t ids[24], valid; } spanned = {{1}, 1};
static __thread void *volatile published __attribute__((tls_model("initial-exec")));

static void empty_ring(void) {
    struct ring_control *ring = ring_control_of(&handler_state.rings, 0);
    ring->tail = ring->head;
}

TEST(a_sample_is_dropped_once_if_its_span_does_not_fit) {
    start_capture();
    const struct ring_header *header = handler_state.rings.header;
    empty_ring();
    tick_with(own_cookie()); /* with the thread's name, which is then known for some ticks */
    published = &spanned;
    handler_state.otel_offset = (int64_t)((uint64_t)&published - system_thread_descriptor());
    uint64_t dropped = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t drops = header->drops[RING_DROP_FULL];
        tick_with(own_cookie());
        drops = header->drops[RING_DROP_FULL] - drops;
        CHECK_INT(drops, <=, 1);
        dropped += drops;
    }
    CHECK_INT(dropped, >, 100);
    handler_state.otel_offset = 0;
    published = NULL;
}

static void check_dropped_tick(void) {
    const struct ring_header *header = handler_state.rings.header;
    uint64_t before = pushed(), drops = header->drops[RING_DROP_NO_CONTEXT];
    uint64_t dropped_ns = header->dropped_ns, counted_ns = thread->counted_ns;
    tick_with(own_cookie());
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(header->drops[RING_DROP_NO_CONTEXT], ==, drops + 1);
    uint64_t weight_ns = thread->counted_ns - counted_ns; /* counted: it is not due again */
    CHECK_INT(weight_ns, >=, 1000000);
    CHECK_INT(header->dropped_ns, ==, dropped_ns + weight_ns);
}

/* issue 11 */
TEST(a_tick_without_a_map_or_a_cache_is_dropped_with_its_weight) {
    start_capture();
    const struct module_map *map = atomic_exchange(&handler_state.map, NULL);
    check_dropped_tick();
    handler_state.map = map;
    struct walk_cache *cache = thread->cache;
    thread->cache = NULL;
    check_dropped_tick();
    thread->cache = cache;
    uint64_t drops = handler_state.rings.header->drops[RING_DROP_NO_CONTEXT];
    tick_with(own_cookie());
    CHECK_INT(handler_state.rings.header->drops[RING_DROP_NO_CONTEXT], ==, drops);
}

static int foreign;

static void on_foreign(int number) {
    foreign++;
}

static void on_foreign_info(int number, siginfo_t *info, void *context) {
    foreign += info->si_value.sival_int == 5 ? 100 : 1;
}

static void send_foreign(void) {
    siginfo_t info = {.si_signo = SIGRTMAX, .si_code = SI_QUEUE};
    ucontext_t context;
    info.si_value.sival_int = 5;
    getcontext(&context);
    tick_on_timer(SIGRTMAX, &info, &context);
}

TEST(a_foreign_signal_is_handled_as_the_application_asked) {
    start_capture();
    uint64_t before = pushed();
    struct chain_action plain = {(uint64_t)on_foreign, 0, 0},
                        with_info = {(uint64_t)on_foreign_info, SA_SIGINFO, 0},
                        once = {(uint64_t)on_foreign, SA_RESETHAND, 0},
                        ignored = {(uint64_t)SIG_IGN, 0, 0};
    chain_write(&chains[CHAIN_TIMER], &plain);
    send_foreign();
    CHECK_INT(foreign, ==, 1);
    chain_write(&chains[CHAIN_TIMER], &with_info);
    send_foreign();
    CHECK_INT(foreign, ==, 101);
    chain_write(&chains[CHAIN_TIMER], &ignored);
    send_foreign();
    CHECK_INT(foreign, ==, 101);
    chain_write(&chains[CHAIN_TIMER], &once);
    send_foreign();
    CHECK_INT(foreign, ==, 102);
    CHECK_INT(chain_read(&chains[CHAIN_TIMER]).handler, ==, (uint64_t)SIG_DFL);
    CHECK_INT(pushed(), ==, before);
}
