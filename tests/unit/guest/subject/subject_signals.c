/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs about signals: a program's own use of them must not change. */
#include "tests/unit/guest/subject/subject.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* ---- blocked: a thread with every signal masked ---- */

static void *burn_blocked(void *argument) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    subject_work(*(int *)argument * SUBJECT_MS);
    return (void *)syscall(SYS_gettid);
}

void verb_blocked(int ms) {
    pthread_t thread;
    void *tid;
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_blocked, &ms);
    pthread_join(thread, &tid);
    subject_say("burned", ms * SUBJECT_MS, (long long)(intptr_t)tid);
    subject_wait();
}

/* ---- foreign: the program's own SIGTRAP, SIGPROF and real-time handlers, set before and during a
 * capture ---- */

static _Atomic int traps, traps_with_code, profs, queued;

static void on_trap(int number, siginfo_t *info, void *context) {
    traps++;
    traps_with_code += info->si_code == SI_KERNEL || info->si_code == SI_TKILL;
}

static void on_prof(int number) {
    profs++;
}

static void on_queued(int number, siginfo_t *info, void *context) {
    queued += info->si_value.sival_int == 77;
}

static void trap_and_burn(int times) {
    for (int i = 0; i < times; i++) {
        __asm__ volatile("int3");
        raise(SIGTRAP);
        raise(SIGPROF);
        for (int real_time = SIGRTMIN + 2; real_time < SIGRTMAX; real_time += 7)
            sigqueue(getpid(), real_time, (union sigval){.sival_int = 77});
        subject_work(SUBJECT_MS);
    }
}

static void *burn_long(void *argument) {
    subject_work(*(int *)argument * SUBJECT_MS);
    return NULL;
}

/* The program uses every seventh real-time signal, so the guest's is next to some of them. */
void verb_foreign(int times) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, old;
    pthread_t thread;
    sigaction(SIGTRAP, &action, NULL);
    signal(SIGPROF, on_prof);
    action.sa_sigaction = on_queued;
    for (int real_time = SIGRTMIN + 2; real_time < SIGRTMAX; real_time += 7)
        sigaction(real_time, &action, NULL);
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_long, &times);
    trap_and_burn(times);
    sigaction(SIGTRAP, NULL, &old); /* the program sees its own handler and may change it */
    int same = old.sa_sigaction == on_trap;
    int count = traps;
    same += signal(SIGTRAP, SIG_IGN) == (__sighandler_t)(void *)on_trap;
    raise(SIGTRAP);
    same += traps == count;
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, &old);
    same += old.sa_handler == SIG_IGN;
    trap_and_burn(times);
    pthread_join(thread, NULL);
    subject_say("traps", traps, traps_with_code);
    subject_say("profs", profs, queued);
    subject_say("same", same, 0);
    subject_wait();
}

/* ---- eintr: system calls that wait ---- */

static _Atomic int interrupted, stop;

static void count_result(int result, int expected_errno) {
    if (result < 0 && errno == EINTR)
        interrupted++;
}

static void *wait_in_poll(void *unused) {
    while (!stop)
        count_result(poll(NULL, 0, 20), 0);
    return NULL;
}

static void *wait_in_epoll(void *unused) {
    struct epoll_event event;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    while (!stop)
        count_result(epoll_wait(fd, &event, 1, 20), 0);
    close(fd);
    return NULL;
}

static void *wait_in_sleep(void *unused) {
    struct timespec span = {0, 20000000};
    while (!stop)
        count_result(nanosleep(&span, NULL), 0);
    return NULL;
}

static void *wait_in_select(void *unused) {
    while (!stop) {
        struct timeval span = {0, 20000};
        count_result(select(0, NULL, NULL, NULL, &span), 0);
    }
    return NULL;
}

static void *wait_in_recv(void *unused) {
    int pair[2];
    char byte;
    struct timeval span = {0, 20000};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &span, sizeof span);
    while (!stop)
        count_result((int)recv(pair[0], &byte, 1, 0), EAGAIN);
    close(pair[0]);
    close(pair[1]);
    return NULL;
}

static void *wait_in_semaphore(void *unused) {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    while (!stop) {
        int64_t until = subject_clock(CLOCK_REALTIME) + 20 * SUBJECT_MS;
        struct timespec at = {until / 1000000000, until % 1000000000};
        count_result(sem_timedwait(&semaphore, &at), ETIMEDOUT);
    }
    return NULL;
}

/* Connecting to a socket whose queue is full waits for the timeout. */
static void *wait_in_connect(void *unused) {
    struct timeval span = {0, 20000};
    sa_family_t family = AF_UNIX; /* the kernel chooses the name */
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
    if (bind(listener, (struct sockaddr *)&family, sizeof family) != 0 ||
        listen(listener, 0) != 0 || getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        abort();
    while (!stop) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof span);
        int result = connect(fd, (struct sockaddr *)&address, size);
        count_result(result, EAGAIN);
        if (result != 0)
            close(fd); /* the first connection stays and fills the queue */
    }
    close(listener);
    return NULL;
}

void verb_eintr(int ms) {
    void *(*const waits[])(void *) = {wait_in_poll,   wait_in_epoll, wait_in_sleep,
                                      wait_in_select, wait_in_recv,  wait_in_semaphore,
                                      wait_in_connect};
    pthread_t threads[7];
    subject_say("ready", 0, 0);
    subject_wait();
    for (int i = 0; i < 7; i++)
        pthread_create(&threads[i], NULL, waits[i], NULL);
    subject_work(ms * SUBJECT_MS);
    stop = 1;
    for (int i = 0; i < 7; i++)
        pthread_join(threads[i], NULL);
    subject_say("interrupted", interrupted, 0);
    subject_wait();
}

/* ---- steady: errno, signal mask, vector registers and red zone during ticks ---- */

/* One round: whether all four are unchanged. The red zone is written explicitly, below the stack
 * pointer. */
static int unchanged(uint64_t seed) {
    double in[2] = {(double)seed, (double)seed * 0.5}, out[2];
    uint64_t red = 0;
    errno = (int)(seed % 100) + 1;
    __asm__ volatile("movupd %[in], %%xmm7\n\t"
                     "movq %[seed], -64(%%rsp)\n\t"
                     "movl $20000, %%ecx\n"
                     "1: decl %%ecx\n\t"
                     "jnz 1b\n\t"
                     "movq -64(%%rsp), %[red]\n\t"
                     "movupd %%xmm7, %[out]"
                     : [out] "=m"(out), [red] "=&r"(red)
                     : [in] "m"(in), [seed] "r"(seed)
                     : "xmm7", "ecx", "cc");
    return errno == (int)(seed % 100) + 1 && red == seed && memcmp(in, out, sizeof in) == 0;
}

void verb_steady(int ms) {
    sigset_t before, after;
    uint64_t rounds = 0, changed = 0;
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    int64_t end = subject_clock(CLOCK_THREAD_CPUTIME_ID) + ms * SUBJECT_MS;
    for (; subject_clock(CLOCK_THREAD_CPUTIME_ID) < end; rounds++) {
        changed += !unchanged(rounds);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        changed += memcmp(&before, &after, 8) != 0;
    }
    subject_say("changed", (long long)changed, (long long)rounds);
    subject_wait();
}

/* ---- small_stacks: threads with the smallest possible stacks ---- */

void verb_small_stacks(int count) {
    int ms = 20;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    int refused = pthread_attr_setstacksize(&attr, 16384);
    subject_say("ready", 0, 0);
    subject_wait();
    int64_t before = subject_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        refused +=
            pthread_create(&thread, &attr, burn_long, &ms) != 0 || pthread_join(thread, NULL) != 0;
    }
    subject_say("burned", subject_clock(CLOCK_PROCESS_CPUTIME_ID) - before, refused);
    subject_wait();
}

/* ---- altstack: how much of its alternate stack handlers use ---- */

static void *burn_beside_stack(void *stack) {
    stack_t alternate = {.ss_sp = stack, .ss_size = 64 << 10}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&alternate, NULL);
    subject_work(200 * SUBJECT_MS);
    sigaltstack(&none, NULL);
    return NULL;
}

void verb_altstack(int unused) {
    static unsigned char stack[64 << 10];
    pthread_t thread;
    memset(stack, 0xa5, sizeof stack);
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_beside_stack, stack);
    pthread_join(thread, NULL);
    int untouched = 0;
    while (untouched < (int)sizeof stack && stack[untouched] == 0xa5)
        untouched++;
    subject_say("touched", (int)sizeof stack - untouched, 0);
    subject_wait();
}

/* ---- stolen: replaces our handler by a raw system call ---- */

static void on_stolen(int number, siginfo_t *info, void *context) {
    traps++;
}

void verb_stolen(int ms) {
    struct sigaction action = {.sa_sigaction = on_stolen, .sa_flags = SA_SIGINFO};
    extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
    subject_say("ready", 0, 0);
    subject_wait();
    subject_work(150 * SUBJECT_MS); /* ticks arrive before the guest notices */
    __sigaction(SIGTRAP, &action, NULL);
    subject_say("stolen", 0, 0);
    subject_work(ms * SUBJECT_MS);
    subject_say("done", traps, 0);
    subject_wait();
}

/* ---- late: a tick that is pending when its clock is disarmed ---- */

void verb_late(int unused) {
    sigset_t all;
    sigfillset(&all);
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    subject_work(100 * SUBJECT_MS);
    subject_say("pending", 0, 0);
    subject_wait(); /* until the capture has ended */
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    subject_say("alive", 0, 0);
    subject_wait();
}
