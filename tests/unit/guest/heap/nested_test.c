/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal handlers that allocate, with an allocator that permits it (plain.c, linked before
 * libc). */
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static _Atomic uint32_t handled;
static void *_Atomic passed;

static void on_signal(int number) {
    void *block = malloc(48);
    free(atomic_exchange(&passed, block));
    handled++;
}

TEST(h12_a_signal_handler_may_allocate_anywhere) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    CHECK_INT(fixture_start(1, 0), ==, 0);
    CHECK_STR(fixture_allocator(), "libplain.so");
    CHECK_INT(sigaction(SIGALRM, &action, NULL), ==, 0);
    CHECK_INT(setitimer(ITIMER_REAL, &often, NULL), ==, 0);
    for (int i = 0; i < 3000000 && handled < 500; i++) {
        void *block = malloc(16);
        __asm__ volatile("" : "+r"(block));
        free(block);
    }
    CHECK_INT(setitimer(ITIMER_REAL, &never, NULL), ==, 0);
    CHECK_INT(handled, >, 20);
    free(passed);
    struct fixture_totals totals = fixture_totals();
    CHECK_NEAR(fixture_live_objects(16), 0, 0);
    CHECK_NEAR(fixture_live_objects(48), 0, 0);
    CHECK_INT(totals.drops[ALLOC_DROP_LIVE] + totals.drops[ALLOC_DROP_STACKS], ==, 0);
    fixture_stop();
}
