/* SPDX-License-Identifier: Apache-2.0
 *
 * growing MIB WHAT: says "ready", waits for a line of input, then grows by MIB MiB as WHAT says,
 * while it also keeps a cache filled and empty and maps and unmaps memory, which leaves nothing. It
 * says "grown", and ends with its input.
 *
 *     small     leak() in pages, twice as much as keep()
 *     huge      the same in huge pages
 *     kinds     as much in leak() as in a file, and in shared memory
 *     fork      only copies, page by page, what a child still shares with it
 *     zero      only reads memory that nobody has written
 *     populate  memory that the kernel fills in, without a fault
 *     end       as small, and ends at once */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define HUGE (2 * MIB)
#define STEP (4 * MIB)

static void *map(size_t bytes, int flags) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    return memory;
}

/* Aligned to huge pages, and with them or without. */
static uint8_t *map_anonymous(size_t bytes, bool is_huge) {
    uint8_t *memory = map(bytes + HUGE, MAP_PRIVATE | MAP_ANONYMOUS);
    memory += HUGE - (uintptr_t)memory % HUGE;
    madvise(memory, bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

__attribute__((noinline)) static void touch(volatile uint8_t *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        memory[i] = 1;
}

__attribute__((noinline)) void leak(uint8_t *memory, size_t bytes) {
    touch(memory, bytes);
    __asm__ volatile("");
}

__attribute__((noinline)) void keep(uint8_t *memory, size_t bytes) {
    touch(memory, bytes);
    __asm__ volatile("");
}

__attribute__((noinline)) void fill_cache(uint8_t *memory, size_t bytes) {
    touch(memory, bytes);
    madvise(memory, bytes, MADV_DONTNEED);
}

__attribute__((noinline)) void churn(bool is_huge) {
    uint8_t *memory = map_anonymous(STEP, is_huge);
    touch(memory, STEP);
    munmap(memory, STEP);
}

static void grow(size_t bytes, bool is_huge) {
    uint8_t *leaked = map_anonymous(bytes, is_huge), *kept = map_anonymous(bytes, is_huge);
    uint8_t *cache = map_anonymous(STEP, is_huge);
    size_t leaked_bytes = bytes / 3 * 2 / STEP * STEP, kept_bytes = bytes - leaked_bytes;
    for (size_t at = 0; at < leaked_bytes; at += STEP) {
        leak(leaked + at, STEP);
        if (at < kept_bytes)
            keep(kept + at, kept_bytes - at < STEP ? kept_bytes - at : STEP);
        fill_cache(cache, STEP);
        churn(is_huge);
        usleep(2000);
    }
}

__attribute__((noinline)) void read_file(size_t bytes) {
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), (off_t)bytes))
        exit(1);
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (memory == MAP_FAILED)
        exit(1);
    touch(memory, bytes);
}

__attribute__((noinline)) void share(size_t bytes) {
    touch(map(bytes, MAP_SHARED | MAP_ANONYMOUS), bytes);
}

static void copy(uint8_t *memory, size_t bytes) {
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    touch(memory, bytes);
}

__attribute__((noinline)) static void read_zeros(const volatile uint8_t *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        (void)memory[i];
}

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? (size_t)atol(argv[1]) * MIB : MIB;
    const char *what = argc > 2 ? argv[2] : "small";
    bool is_fork = strcmp(what, "fork") == 0;
    uint8_t *before = is_fork ? map_anonymous(bytes, false) : NULL;
    if (is_fork)
        touch(before, bytes);
    puts("ready");
    fflush(stdout);
    (void)getchar();
    if (strcmp(what, "small") == 0 || strcmp(what, "huge") == 0 || strcmp(what, "end") == 0) {
        grow(bytes, strcmp(what, "huge") == 0);
    } else if (strcmp(what, "kinds") == 0) {
        leak(map_anonymous(bytes, false), bytes);
        read_file(bytes);
        share(bytes);
    } else if (is_fork) {
        copy(before, bytes);
    } else if (strcmp(what, "zero") == 0) {
        read_zeros(map_anonymous(bytes, false), bytes);
    } else {
        map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
    }
    puts("grown");
    fflush(stdout);
    while (strcmp(what, "end") != 0 && getchar() != EOF) {
    }
    return 0;
}
