/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unwind/waits.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 150

static struct waits *shared;
static int empty_epoll, quiet_semaphore;

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec when;
    clock_gettime(clock, &when);
    when.tv_nsec += ms * 1000000;
    when.tv_sec += when.tv_nsec / 1000000000;
    when.tv_nsec %= 1000000000;
    return when;
}

static long wait_condition(bool timed) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until = in_ms(CLOCK_REALTIME, TIMEOUT_MS);
    pthread_mutex_lock(&mutex);
    errno =
        timed ? pthread_cond_timedwait(&never, &mutex, &until) : pthread_cond_wait(&never, &mutex);
    pthread_mutex_unlock(&mutex);
    return errno ? -1 : 0;
}

static long wait_recv(bool timed) {
    struct timeval timeout = {0, TIMEOUT_MS * 1000};
    char byte;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 0;
    if (timed)
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    long got = recv(pair[0], &byte, 1, 0);
    int error = errno;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return got;
}

static long wait_semaphore(void) {
    struct timespec until = in_ms(CLOCK_REALTIME, TIMEOUT_MS);
    sem_t never;
    sem_init(&never, 0, 0);
    return sem_timedwait(&never, &until);
}

static long wait_semop(void) {
    struct sembuf take = {0, -1, 0};
    struct timespec timeout = {0, TIMEOUT_MS * 1000000};
    return semtimedop(quiet_semaphore, &take, 1, &timeout);
}

static long wait_signal(void) {
    struct timespec timeout = {0, TIMEOUT_MS * 1000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &timeout);
}

static long wait_pipe(void) {
    char byte;
    int ends[2];
    return pipe(ends) == 0 ? read(ends[0], &byte, 1) : 0;
}

static long wait_accept(void) {
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&any, sizeof any.sun_family) != 0 ||
        listen(listener, 1) != 0)
        return 0;
    return accept(listener, NULL, NULL);
}

static long wait_child(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return waitpid(child, NULL, 0);
}

static long wait_in_turns(void) {
    struct epoll_event event;
    volatile unsigned sum = 0;
    for (int i = 0; i < 200000; i++)
        sum = sum + (unsigned)i;
    return epoll_wait(empty_epoll, &event, 1, 1);
}

static long work(void) {
    volatile unsigned sum = 0;
    for (int i = 0; i < 1000000; i++)
        sum = sum + (unsigned)i;
    return 0;
}

static __attribute__((noinline)) long wait_once(enum wait_kind kind) {
    struct timespec pause = {0, TIMEOUT_MS * 1000000};
    struct timeval timeout = {0, TIMEOUT_MS * 1000};
    struct epoll_event event;
    uint64_t value;
    switch (kind) {
    case WAIT_POLL:
        return poll(NULL, 0, TIMEOUT_MS);
    case WAIT_EPOLL_ENDLESS:
        return epoll_wait(empty_epoll, &event, 1, -1);
    case WAIT_EPOLL_TIMED:
        return epoll_wait(empty_epoll, &event, 1, TIMEOUT_MS);
    case WAIT_NANOSLEEP:
        return nanosleep(&pause, NULL);
    case WAIT_CONDITION:
    case WAIT_CONDITION_TIMED:
        return wait_condition(kind == WAIT_CONDITION_TIMED);
    case WAIT_RECV:
    case WAIT_RECV_TIMED:
        return wait_recv(kind == WAIT_RECV_TIMED);
    case WAIT_SELECT:
        return select(0, NULL, NULL, NULL, &timeout);
    case WAIT_SEMAPHORE:
        return wait_semaphore();
    case WAIT_SEMOP:
        return wait_semop();
    case WAIT_SIGNAL:
        return wait_signal();
    case WAIT_PIPE:
        return wait_pipe();
    case WAIT_EVENTFD:
        return read(eventfd(0, 0), &value, sizeof value);
    case WAIT_ACCEPT:
        return wait_accept();
    case WAIT_FOR_CHILD:
        return wait_child();
    case WAIT_IN_TURNS:
        return wait_in_turns();
    default:
        return work();
    }
}

static bool is_timed(enum wait_kind kind) {
    return kind == WAIT_POLL || kind == WAIT_EPOLL_TIMED || kind == WAIT_NANOSLEEP ||
           kind == WAIT_CONDITION_TIMED || kind == WAIT_RECV_TIMED || kind == WAIT_SELECT ||
           kind == WAIT_SEMAPHORE || kind == WAIT_SEMOP || kind == WAIT_SIGNAL;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *wait_for_ever(void *context) {
    enum wait_kind kind = (enum wait_kind)(uintptr_t)context;
    shared->of[kind].tid = gettid();
    for (;;) {
        int64_t begin = now_ms();
        errno = 0;
        long result = wait_once(kind);
        if (result < 0 && errno == EINTR)
            shared->of[kind].interrupted++;
        if (is_timed(kind) && now_ms() - begin < TIMEOUT_MS - 2)
            shared->of[kind].early++;
        shared->of[kind].rounds++;
    }
    return NULL;
}

void waits_run(struct waits *waits) {
    sigset_t set;
    shared = waits;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    empty_epoll = epoll_create1(EPOLL_CLOEXEC);
    quiet_semaphore = waits->semaphore;
    for (uintptr_t kind = 0; kind < WAIT_KINDS; kind++) {
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, (void *)kind);
    }
    for (;;)
        pause();
}
