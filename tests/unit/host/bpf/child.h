/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that waits for known times, for off_cpu_test.c. */
#ifndef SONDE_TESTS_UNIT_HOST_BPF_CHILD_H
#define SONDE_TESTS_UNIT_HOST_BPF_CHILD_H

#include "tests/unit/check.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MS 1000000ull

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The child waits for a letter, does it, and answers. */
struct child {
    pid_t pid;
    int to, from;
    uint64_t *slept_ns; /* by its own clock, shared */
};

__attribute__((noinline, aligned(1024))) static void sleep_long(uint64_t *slept_ns) {
    uint64_t from = now_ns();
    struct timespec time = {.tv_nsec = 20 * MS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    *slept_ns += now_ns() - from;
    __asm__ volatile("");
}

__attribute__((noinline, aligned(1024))) static void sleep_often(uint64_t *slept_ns, int times) {
    struct timespec time = {.tv_nsec = 50000};
    for (int i = 0; i < times; i++) {
        uint64_t from = now_ns();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
        *slept_ns += now_ns() - from;
    }
}

/* Waits with more stack below main than a slot takes. */
__attribute__((noinline)) static void sleep_deep(uint64_t *slept_ns) {
    char deep[65536];
    memset(deep, 1, sizeof deep);
    __asm__ volatile("" : : "r"(deep) : "memory"); /* its pages are resident */
    sleep_often(slept_ns, 1500);
    __asm__ volatile("" : : "r"(deep) : "memory");
}

static uint64_t *slept_on_small_stack;

static void sleep_on_small_stack(void) {
    sleep_long(slept_on_small_stack);
}

/* Sleeps on a stack of two pages below a page that cannot be read. */
static void sleep_small(uint64_t *slept_ns) {
    ucontext_t here, there;
    uint8_t *memory = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + 8192, 4096, PROT_NONE) || getcontext(&there))
        _exit(1);
    there.uc_stack.ss_sp = memory;
    there.uc_stack.ss_size = 8192;
    there.uc_link = &here;
    slept_on_small_stack = slept_ns;
    makecontext(&there, sleep_on_small_stack, 0);
    swapcontext(&here, &there);
}

static uint32_t lock_words[8] __attribute__((aligned(8))) = {2, 0, 4242};

/* Waits for a word as for a mutex. time NULL = for ever. */
static void wait_for_lock(const struct timespec *time) {
    (void)syscall(SYS_futex, lock_words, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, time, NULL, 0);
}

static void spin(uint64_t ns) {
    for (uint64_t end = now_ns() + ns; now_ns() < end;) {
    }
}

static void obey(char letter, uint64_t *slept_ns) {
    switch (letter) {
    case 'l':
        for (int i = 0; i < 5; i++)
            sleep_long(slept_ns);
        break;
    case 'o':
        sleep_often(slept_ns, 3000);
        break;
    case 'd':
        sleep_deep(slept_ns);
        break;
    case 'e':
        sleep_small(slept_ns);
        break;
    case 's':
        spin(100 * MS);
        break;
    case 'f':
        wait_for_lock(&(struct timespec){.tv_nsec = 20 * MS});
        sleep_long(slept_ns);
        break;
    case 'w':
        wait_for_lock(NULL);
        break;
    default:
        _exit(0);
    }
}

static _Noreturn void run_child(int from, int to, uint64_t *slept_ns) {
    char letter;
    while (read(from, &letter, 1) == 1) {
        obey(letter, slept_ns);
        if (write(to, &letter, 1) != 1)
            break;
    }
    _exit(0);
}

static struct child start_child(void) {
    int to[2], from[2];
    CHECK_INT(pipe(to), ==, 0);
    CHECK_INT(pipe(from), ==, 0);
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t pid = fork();
    CHECK_INT(pid, >=, 0);
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        run_child(to[0], from[1], shared);
    }
    close(to[0]);
    close(from[1]);
    return (struct child){pid, to[1], from[0], shared};
}

static void order(const struct child *child, char letter) {
    CHECK_INT(write(child->to, &letter, 1), ==, 1);
}

static void await(const struct child *child) {
    char letter;
    CHECK_INT(read(child->from, &letter, 1), ==, 1);
}

static void end_child(struct child *child) {
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->to);
    close(child->from);
    munmap(child->slept_ns, 4096);
}

/* A child that has blocked in read(): state S. */
static void await_blocked(const struct child *child) {
    char path[64], text[512] = "", state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child->pid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        CHECK(file);
        CHECK(fgets(text, sizeof text, file));
        fclose(file);
        state = strrchr(text, ')')[2];
    }
}

static void await_blocked_in_futex(const struct child *child) {
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)child->pid);
    while (strtol(text, NULL, 10) != SYS_futex) {
        FILE *file = fopen(path, "r");
        CHECK(file);
        CHECK(fgets(text, sizeof text, file));
        fclose(file);
    }
}

#endif
