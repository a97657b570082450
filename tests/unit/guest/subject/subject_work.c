/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that use CPU time in known functions. */
#include "tests/unit/guest/subject/subject.h"

#include "api/sonde.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

/* ---- shares: 10, 20 and 70 % over several threads, each part in a section of its own ---- */

/* Uses at least that much CPU time and returns how much it was, measured from edge to edge of each
 * slice. */
#define PART(name)                                                                             \
    extern const char __start_##name[], __stop_##name[];                                       \
    __attribute__((noinline, section(#name))) static int64_t name(int64_t begin, int64_t ns) { \
        int64_t now = begin;                                                                   \
        while (now - begin < ns) {                                                             \
            SUBJECT_SPIN();                                                                    \
            now = subject_clock(CLOCK_THREAD_CPUTIME_ID);                                      \
        }                                                                                      \
        return now;                                                                            \
    }
PART(part_ten)
PART(part_twenty)
PART(part_seventy)

static _Atomic int64_t sum_ten, sum_twenty, sum_seventy;

static void *burn_shares(void *argument) {
    int64_t ms = *(int *)argument, edge = subject_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < ms; i++) {
        int64_t ten = part_ten(edge, 100000);
        int64_t twenty = part_twenty(ten, 200000);
        int64_t seventy = part_seventy(twenty, 700000);
        sum_ten += ten - edge;
        sum_twenty += twenty - ten;
        sum_seventy += seventy - twenty;
        edge = seventy;
    }
    return NULL;
}

static void run_threads(int count, void *(*start)(void *), void *argument) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, start, argument) != 0)
            abort();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

void verb_shares(int ms) {
    subject_say("ten", (long long)__start_part_ten, (long long)__stop_part_ten);
    subject_say("twenty", (long long)__start_part_twenty, (long long)__stop_part_twenty);
    subject_say("seventy", (long long)__start_part_seventy, (long long)__stop_part_seventy);
    subject_wait();
    int64_t before = subject_clock(CLOCK_PROCESS_CPUTIME_ID);
    run_threads(3, burn_shares, &ms);
    subject_say("burned", subject_clock(CLOCK_PROCESS_CPUTIME_ID) - before, sum_ten);
    subject_say("more", sum_twenty, sum_seventy);
    subject_wait();
}

/* ---- short_shares: the same in threads that live for a millisecond ---- */

static void *live_in_parts(void *unused) {
    int one = 1;
    return burn_shares(&one);
}

void verb_short_shares(int count) {
    subject_say("ten", (long long)__start_part_ten, (long long)__stop_part_ten);
    subject_say("twenty", (long long)__start_part_twenty, (long long)__stop_part_twenty);
    subject_say("seventy", (long long)__start_part_seventy, (long long)__stop_part_seventy);
    subject_wait();
    for (int left = count; left > 0; left -= 4)
        run_threads(4, live_in_parts, NULL);
    subject_say("burned", 0, sum_ten);
    subject_say("more", sum_twenty, sum_seventy);
    subject_wait();
}

/* ---- threads: many that live for a millisecond ---- */

extern const char __start_short_life[], __stop_short_life[];

/* Only the time in here is added up, without the start and end of the thread. */
__attribute__((noinline, section("short_life"))) static void *live_shortly(void *sum) {
    int64_t begin = subject_clock(CLOCK_THREAD_CPUTIME_ID);
    subject_work(SUBJECT_MS);
    atomic_fetch_add((_Atomic int64_t *)sum, subject_clock(CLOCK_THREAD_CPUTIME_ID) - begin);
    return NULL;
}

void verb_threads(int count) {
    _Atomic int64_t sum = 0;
    subject_say("life", (long long)__start_short_life, (long long)__stop_short_life);
    subject_wait();
    for (int left = count; left > 0; left -= 4)
        run_threads(4, live_shortly, &sum);
    subject_say("burned", sum, 0);
    subject_wait();
}

/* ---- kernel: system calls of all lengths ---- */

void verb_kernel(int ms) {
    static char buffer[4 << 20];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    subject_say("ready", 0, 0);
    subject_wait();
    int64_t before = subject_clock(CLOCK_THREAD_CPUTIME_ID), end = before + ms * SUBJECT_MS;
    for (size_t size = 1; subject_clock(CLOCK_THREAD_CPUTIME_ID) < end;
         size = size * 3 % sizeof buffer)
        if (read(zero, buffer, size) < 0)
            abort();
    subject_say("burned", subject_clock(CLOCK_THREAD_CPUTIME_ID) - before, 0);
    subject_wait();
}

/* ---- leaf: a hot function without a frame, whose caller must be found ---- */

extern const char __start_callers[], __stop_callers[], __start_leaves[], __stop_leaves[];

__attribute__((noinline, section("leaves"), optimize("O2,omit-frame-pointer"))) static uint64_t
hot_leaf(uint64_t seed) {
    for (int i = 0; i < 20000; i++)
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed;
}

__attribute__((noinline, section("callers"), optimize("O2,omit-frame-pointer"))) static uint64_t
calls_leaf(uint64_t seed) {
    for (int i = 0; i < 50; i++)
        seed += hot_leaf(seed);
    return seed + 1;
}

void verb_leaf(int ms) {
    volatile uint64_t sink = 1;
    subject_say("leaves", (long long)__start_leaves, (long long)__stop_leaves);
    subject_say("callers", (long long)__start_callers, (long long)__stop_callers);
    subject_wait();
    int64_t end = subject_clock(CLOCK_THREAD_CPUTIME_ID) + ms * SUBJECT_MS;
    while (subject_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        sink = calls_leaf(sink);
    subject_say("done", 0, 0);
    subject_wait();
}

/* ---- idle: threads that do nothing ---- */

static void *sleep_long(void *unused) {
    pause();
    return unused;
}

void verb_idle(int count) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    int made = 0;
    while (made < count && pthread_create(&thread, &attr, sleep_long, NULL) == 0)
        made++;
    subject_say("ready", made, 0);
    subject_wait();
    subject_work(100 * SUBJECT_MS);
    subject_say("done", 0, 0);
    subject_wait();
}

/* ---- steady_crowd N: N busy threads for about two seconds ---- */

static void *burn_until(void *end) {
    while (subject_clock(CLOCK_MONOTONIC) < *(int64_t *)end)
        subject_work(SUBJECT_MS);
    return NULL;
}

void verb_steady_crowd(int count) {
    subject_say("ready", 0, 0);
    subject_wait();
    int64_t before = subject_clock(CLOCK_PROCESS_CPUTIME_ID);
    int64_t end = subject_clock(CLOCK_MONOTONIC) + 2000 * SUBJECT_MS;
    run_threads(count, burn_until, &end);
    subject_say("burned", subject_clock(CLOCK_PROCESS_CPUTIME_ID) - before, 0);
    subject_wait();
}

/* ---- clone: a thread that libc does not know ---- */

static _Atomic int clone_tid, clone_done;
static int64_t clone_ns;

static int cloned(void *argument) {
    clone_ns = *(int *)argument * SUBJECT_MS;
    clone_tid = (int)syscall(SYS_gettid);
    SUBJECT_BURN(clone_ns);
    clone_done = 1;
    syscall(SYS_exit, 0);
    return 0;
}

void verb_clone(int ms) {
    size_t size = 256 << 10;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    subject_say("ready", 0, 0);
    subject_wait();
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (stack == MAP_FAILED || clone(cloned, stack + size, flags, &ms) < 0)
        abort();
    while (!clone_done)
        usleep(1000);
    subject_say("burned", clone_ns, clone_tid);
    subject_wait();
}

/* ---- in_step: work that begins right after the kernel's tick and ends before the next ---- */

void verb_in_step(int rounds) {
    subject_say("ready", 0, 0);
    subject_wait();
    int64_t before = subject_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < rounds; i++) {
        int64_t next = (subject_clock(CLOCK_MONOTONIC) / (4 * SUBJECT_MS) + 1) * 4 * SUBJECT_MS;
        next += SUBJECT_MS / 5;
        struct timespec at = {next / 1000000000, next % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        subject_work(3 * SUBJECT_MS / 2);
    }
    subject_say("burned", subject_clock(CLOCK_THREAD_CPUTIME_ID) - before, 0);
    subject_wait();
}

/* ---- deep: recursion over the limit ---- */

static __attribute__((noinline)) int64_t go_down(int depth, int64_t ns) {
    if (depth == 0) {
        SUBJECT_BURN(ns);
        return 1;
    }
    volatile int64_t below = go_down(depth - 1, ns);
    return below + 1;
}

void verb_deep(int depth) {
    subject_say("ready", (long long)(uintptr_t)go_down, 0);
    subject_wait();
    subject_say("done", go_down(depth, 300 * SUBJECT_MS), 0);
    subject_wait();
}

/* ---- coroutine: work on a stack of its own ---- */

static ucontext_t main_context, own_context;

static void coroutine(void) {
    subject_work(300 * SUBJECT_MS);
    __asm__ volatile(""); /* no tail call */
}

void verb_coroutine(int unused) {
    size_t size = 64 << 10;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&own_context);
    own_context.uc_stack.ss_sp = stack;
    own_context.uc_stack.ss_size = size;
    own_context.uc_link = &main_context;
    makecontext(&own_context, coroutine, 0);
    subject_say("ready", (long long)(uintptr_t)coroutine, (long long)(uintptr_t)subject_work);
    subject_wait();
    swapcontext(&main_context, &own_context);
    subject_say("done", 0, 0);
    subject_wait();
}

/* ---- registered: the same, deeper than an unknown stack is walked; argument: 1 = register ---- */

static __attribute__((noinline)) void work_far_below(void) {
    volatile char room[200 << 10];
    room[0] = 1;
    subject_work(300 * SUBJECT_MS);
    room[1] = room[0];
}

static void deep_coroutine(void) {
    work_far_below();
    __asm__ volatile(""); /* no tail call */
}

void verb_registered(int tell) {
    size_t size = 1 << 20;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __typeof__(&sonde_stack_add) add = (__typeof__(add))dlsym(RTLD_DEFAULT, "sonde_stack_add");
    getcontext(&own_context);
    own_context.uc_stack.ss_sp = stack;
    own_context.uc_stack.ss_size = size;
    own_context.uc_link = &main_context;
    makecontext(&own_context, deep_coroutine, 0);
    if (tell && add(stack, size) != 0)
        abort();
    subject_say("ready", (long long)(uintptr_t)deep_coroutine, 0);
    subject_wait();
    swapcontext(&main_context, &own_context);
    subject_say("done", 0, 0);
    subject_wait();
}

/* ---- sigstack: work inside a signal handler on an alternate stack ---- */

static void work_in_handler(int number) {
    subject_work(300 * SUBJECT_MS);
    __asm__ volatile(""); /* no tail call */
}

void verb_sigstack(int unused) {
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = work_in_handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    subject_say("ready", (long long)(uintptr_t)work_in_handler,
                (long long)(uintptr_t)verb_sigstack);
    subject_wait();
    raise(SIGUSR1);
    subject_say("done", 0, 0);
    subject_wait();
}
