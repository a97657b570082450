/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick handler called by hand: how much stack it takes, what it does with late and foreign
 * tickets, with a full ring and with a tick inside a tick. */
#include "service/guest/sampling/module_map.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/chain.h"
#include "service/guest/signal/push.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES 65536
#define PAINT       0xa5

static struct room_seat *seat;

/* Rings, a map of this process without tables, and a seat for this thread: a capture runs. */
static void open_room(void) {
    static struct maps maps;
    uint64_t mask;
    if (seat)
        return;
    CHECK_INT(seats_open(), ==, 0);
    CHECK_INT(maps_init(&maps), ==, 0);
    CHECK_INT(maps_read(&maps), ==, 0);
    CHECK_INT(tables_set_modules(&maps, 3), ==, 0);
    CHECK_INT(tables_publish(), ==, 0);
    room.areas = maps.areas;
    room.pid = (uint32_t)getpid();
    room.main_stack = maps.main_stack;
    static _Alignas(RING_PAGE) char memory[2 * RING_PAGE + RING_MIN_BYTES];
    room.rings = (struct ring_set){(struct ring_header *)memory, 1, RING_MIN_BYTES};
    room.period_ns = 1000000;
    room.max_depth = RING_MAX_DEPTH;
    room.wake_fd = -1;
    seats_lock(&mask);
    seat = seats_take((uint32_t)syscall(SYS_gettid));
    seats_unlock(&mask);
    CHECK(seat);
    seat->period_ns = seat->nominal_ns = 1000000;
    seat->clock = ROOM_CLOCK_TIMER;
    room.open = true;
}

static uint64_t pushed(void) {
    return ring_control_of(&room.rings, 0)->head;
}

static void tick_with(uint64_t ticket) {
    siginfo_t info = {.si_signo = SIGRTMAX, .si_code = SI_TIMER};
    ucontext_t context;
    info.si_value.sival_ptr = (void *)ticket;
    getcontext(&context);
    /* one period is due, whatever was drawn last */
    seat->period_ns = 1000000;
    seat->restart_ns = (room_clock_ns(CLOCK_THREAD_CPUTIME_ID) - 1000000) | 1;
    room_on_timer(SIGRTMAX, &info, &context);
}

static uint64_t own_ticket(void) {
    return room_ticket(seat->incarnation, seats_number(seat));
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
    tick_with(room_ticket(seat->incarnation + 1, seats_number(seat)));
    tick_with(room_ticket(seat->incarnation, seats_number(seat) + 1));
    tick_with(room_ticket(0, 0xffff));
    room.open = false;
    tick_with(own_ticket());
    room.open = true;
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(seat->inside, ==, 0);
    tick_with(own_ticket());
    CHECK_INT(pushed(), >, before);
}

TEST(a_tick_inside_a_tick_is_counted) {
    open_room();
    uint64_t before = pushed(), drops = room.rings.header->drops[RING_DROP_NESTED];
    seat->inside = 1;
    tick_with(own_ticket());
    CHECK_INT(pushed(), ==, before);
    CHECK_INT(room.rings.header->drops[RING_DROP_NESTED], ==, drops + 1);
    seat->inside = 0;
}

TEST(a_full_ring_drops_and_counts_and_the_thread_goes_on) {
    open_room();
    for (int i = 0; i < 2000; i++)
        tick_with(own_ticket());
    CHECK_INT(room.rings.header->drops[RING_DROP_FULL], >, 100);
    CHECK_INT(room.rings.header->dropped_ns, >=, 100 * 1000000ull);
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
    room_on_timer(SIGRTMAX, &info, &context);
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
