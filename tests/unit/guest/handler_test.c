/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick handler called by hand: how much stack it takes, what it does with late and foreign
 * cookies, with a full ring and with a tick inside a tick. */
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
#define PAINT       0xa5

static struct sampled_thread *thread;

/* Rings, a map of this process without tables, and a thread for this thread: a capture runs. */
static void open_room(void) {
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
    /* one period is due, whatever was drawn last */
    thread->period_ns = 1000000;
    thread->restart_ns = (handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - 1000000) | 1;
    tick_on_timer(SIGRTMAX, &info, &context);
}

static uint64_t own_ticket(void) {
    return handler_cookie(thread->incarnation, sampled_threads_index(thread));
}

static ucontext_t home, painted;

static void tick_on_painted_stack(void) {
    tick_with(own_ticket());
}

/* E6. */
TEST(handler_uses_less_than_two_kilobytes) {
    open_room();
    unsigned char *stack = malloc(STACK_BYTES);
    for (int round = 0; round < 2; round++) { /* the first one also binds and learns */
        memset(stack, PAINT, STACK_BYTES);
        getcontext(&painted);
        painted.uc_stack.ss_sp = stack;
        painted.uc_stack.ss_size = STACK_BYTES;
        painted.uc_link = &home;
        makecontext(&painted, tick_on_painted_stack, 0);
        uint64_t before = pushed();
        swapcontext(&home, &painted);
        CHECK_INT(pushed(), >, before);
    }
    int untouched = 0;
    while (stack[untouched] == PAINT)
        untouched++;
    int harness =
        (int)(sizeof(ucontext_t) + sizeof(siginfo_t)) + 256; /* of tick_with, below which it runs */
    CHECK_INT(STACK_BYTES - untouched - harness, <, 2048);
    CHECK_INT(STACK_BYTES - untouched - harness, >, 512); /* it did run there */
    free(stack);
}

TEST(handler_keeps_errno) {
    open_room();
    errno = 4711;
    tick_with(own_ticket());
    CHECK_INT(errno, ==, 4711);
}

/* E8. */
TEST(a_late_ticket_does_nothing) {
    open_room();
    uint64_t before = pushed();
    tick_with(handler_cookie(thread->incarnation + 1, sampled_threads_index(thread)));
    tick_with(handler_cookie(thread->incarnation, sampled_threads_index(thread) + 1));
    tick_with(handler_cookie(0, 0xffff));
    handler_state.sampling = false;
    tick_with(own_ticket());
    handler_state.sampling = true;
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(thread->in_handler, ==, 0);
    tick_with(own_ticket());
    CHECK_INT(pushed(), >, before);
}

TEST(a_tick_inside_a_tick_is_counted) {
    open_room();
    uint64_t before = pushed(), drops = handler_state.rings.header->drops[RING_DROP_NESTED];
    thread->in_handler = 1;
    tick_with(own_ticket());
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(handler_state.rings.header->drops[RING_DROP_NESTED], ==, drops + 1);
    thread->in_handler = 0;
}

TEST(a_full_ring_drops_and_counts_and_the_thread_goes_on) {
    open_room();
    for (int i = 0; i < 2000; i++)
        tick_with(own_ticket());
    CHECK_INT(handler_state.rings.header->drops[RING_DROP_FULL], >, 100);
    CHECK_INT(handler_state.rings.header->dropped_ns, >=, 100 * 1000000ull);
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

TEST(a_foreign_signal_reaches_whoever_wants_it) {
    open_room();
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
