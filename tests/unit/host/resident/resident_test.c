/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at this process, which knows what it has touched. */
#include "service/host/resident/resident.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB   ((size_t)1 << 20)
#define HUGE  (2 * MIB)
#define PAGE  ((size_t)4096)
#define BYTES (8 * MIB)

/* Of 8 MiB at an address. */
struct seen {
    uint64_t pages[RESIDENT_KINDS], huge, swapped;
};

static struct resident_set look(void) {
    struct resident_set set;
    int fd = resident_open(getpid());
    CHECK_INT(fd, >=, 0);
    CHECK_INT(resident_read(fd, getpid(), &set), ==, SONDE_OK);
    close(fd);
    return set;
}

static struct seen look_at(const void *address) {
    struct resident_set set = look();
    uint64_t first = (uintptr_t)address / (RESIDENT_PAGES * set.page_bytes);
    struct seen seen = {0};
    for (size_t i = 0; i < set.count; i++) {
        const struct resident_chunk *chunk = &set.chunks[i];
        CHECK(i == 0 || chunk->number >= set.chunks[i - 1].number);
        if (chunk->number < first || chunk->number >= first + BYTES / HUGE)
            continue;
        seen.huge += chunk->is_huge;
        for (size_t word = 0; word < RESIDENT_WORDS; word++) {
            seen.pages[chunk->kind] += (uint64_t)__builtin_popcountll(chunk->pages[word]);
            seen.swapped += (uint64_t)__builtin_popcountll(chunk->swapped[word]);
        }
    }
    resident_finish(&set);
    return seen;
}

/* Aligned to huge pages, for which `advice` says whether they are wanted. */
static uint8_t *map(int flags, int fd, int advice) {
    uint8_t *memory = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, BYTES + HUGE, advice);
    return memory + (HUGE - (uintptr_t)memory % HUGE) % HUGE;
}

static void touch(volatile uint8_t *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        memory[i] = 1;
}

static void need_small_pages(void) {
    if (sysconf(_SC_PAGESIZE) != (long)PAGE)
        check_skip("pages do not have 4 KiB");
}

TEST(touched_pages_are_resident_until_they_are_given_back) {
    need_small_pages();
    uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
    CHECK_INT(look_at(memory).pages[RESIDENT_ANONYMOUS], ==, 0);
    touch(memory + 5 * PAGE, 3 * MIB);
    CHECK_INT(look_at(memory).pages[RESIDENT_ANONYMOUS], ==, 3 * MIB / PAGE);
    madvise(memory, 2 * MIB, MADV_DONTNEED);
    CHECK_INT(look_at(memory).pages[RESIDENT_ANONYMOUS], ==, MIB / PAGE + 5);
}

static void read_all(const uint8_t *memory) {
    for (size_t i = 0; i < BYTES; i += PAGE)
        (void)*(const volatile uint8_t *)(memory + i);
}

/* The anonymous memory of this process, as the kernel sums its pages. */
static uint64_t anonymous_bytes(void) {
    char line[256];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "Anonymous: %lu kB", &kib) != 1) {
    }
    fclose(file);
    return kib * 1024;
}

/* Some kernels give memory that is only read pages of its own, which are resident. */
TEST(zero_pages_are_not_resident) {
    need_small_pages();
    uint8_t *small = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
    uint8_t *huge = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_HUGEPAGE);
    uint64_t before = anonymous_bytes();
    read_all(small);
    bool are_zero = anonymous_bytes() - before < BYTES / 2;
    read_all(huge);
    CHECK_INT(look_at(small).pages[RESIDENT_ANONYMOUS], ==, are_zero ? 0 : BYTES / PAGE);
    if (are_zero)
        CHECK_INT(look_at(huge).pages[RESIDENT_ANONYMOUS], ==, 0);
    touch(small, MIB);
    CHECK_INT(look_at(small).pages[RESIDENT_ANONYMOUS], ==, (are_zero ? MIB : BYTES) / PAGE);
}

TEST(memory_that_a_fork_shares_is_resident) {
    need_small_pages();
    uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
    touch(memory, BYTES);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK_INT(look_at(memory).pages[RESIDENT_ANONYMOUS], ==, BYTES / PAGE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(huge_pages_have_all_their_pages) {
    need_small_pages();
    uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_HUGEPAGE);
    memory[HUGE] = 1;
    struct seen seen = look_at(memory);
    if (seen.pages[RESIDENT_ANONYMOUS] == 1)
        check_skip("this machine has no huge page to spare, or none at all");
    CHECK_INT(seen.pages[RESIDENT_ANONYMOUS], ==, RESIDENT_PAGES);
    struct resident_set set = look();
    CHECK_INT(seen.huge, ==, set.knows_huge);
    resident_finish(&set);
}

TEST(files_and_shared_memory_are_apart) {
    need_small_pages();
    char name[] = "resident.XXXXXX";
    int file = mkstemp(name), memfd = memfd_create("shared", MFD_CLOEXEC);
    CHECK(file >= 0 && memfd >= 0 && unlink(name) == 0);
    CHECK_INT(ftruncate(file, BYTES + HUGE), ==, 0);
    CHECK_INT(ftruncate(memfd, BYTES + HUGE), ==, 0);
    uint8_t *of_file = map(MAP_SHARED, file, MADV_NORMAL);
    touch(of_file, MIB);
    CHECK_INT(look_at(of_file).pages[RESIDENT_FILE], >=, MIB / PAGE);
    uint8_t *shared = map(MAP_SHARED, memfd, MADV_NOHUGEPAGE);
    touch(shared, MIB);
    CHECK_INT(look_at(shared).pages[RESIDENT_SHARED], ==, MIB / PAGE);
    uint8_t *anonymous = map(MAP_SHARED | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
    touch(anonymous, MIB);
    CHECK_INT(look_at(anonymous).pages[RESIDENT_SHARED], ==, MIB / PAGE);
    uint8_t *copied = map(MAP_PRIVATE, memfd, MADV_NOHUGEPAGE);
    touch(copied, MIB);
    CHECK_INT(look_at(copied).pages[RESIDENT_ANONYMOUS], ==, MIB / PAGE);
    close(file);
    close(memfd);
}

/* The kernel's own sum may lag behind by some pages for each CPU. */
TEST(the_sum_of_anonymous_pages_is_the_kernels) {
    uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NOHUGEPAGE);
    touch(memory, BYTES);
    struct resident_set set = look();
    uint64_t pages = 0;
    for (size_t i = 0; i < set.count; i++)
        for (size_t word = 0; word < RESIDENT_WORDS; word++)
            pages += set.chunks[i].kind == RESIDENT_ANONYMOUS
                         ? (uint64_t)__builtin_popcountll(set.chunks[i].pages[word])
                         : 0;
    double ratio = (double)(pages * set.page_bytes) / (double)set.rss_anon;
    CHECK(ratio > 0.8 && ratio < 1.25);
    resident_finish(&set);
}

TEST(a_process_that_has_ended_or_never_was_is_gone) {
    struct resident_set set;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int fd = resident_open(child);
    CHECK_INT(fd, >=, 0);
    kill(child, SIGKILL);
    CHECK_INT(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), ==, 0);
    CHECK_INT(resident_read(fd, child, &set), ==, SONDE_TARGET_GONE); /* a zombie */
    resident_finish(&set);
    waitpid(child, NULL, 0);
    CHECK_INT(resident_read(fd, child, &set), ==, SONDE_TARGET_GONE);
    resident_finish(&set);
    close(fd);
    CHECK_INT(resident_open(child), ==, -ENOENT);
}

TEST(beyond_its_limits_a_look_skips_and_says_how_much) {
    struct resident_set set;
    size_t vast = (size_t)1 << 34;
    uint8_t *memory = mmap(NULL, vast, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory[0] = 1;
    int fd = resident_open(getpid());
    CHECK_INT(resident_read_limited(fd, getpid(), 1000, vast / PAGE / 2, &set), ==, SONDE_OK);
    CHECK_INT(set.skipped_bytes, ==, vast);
    CHECK_INT(set.count, >, 3); /* smaller mappings are looked at */
    resident_finish(&set);
    munmap(memory, vast);
    CHECK_INT(resident_read_limited(fd, getpid(), 3, RESIDENT_MAX_PAGES, &set), ==, SONDE_OK);
    CHECK_INT(set.count, ==, 3);
    CHECK_INT(set.skipped_bytes, >=, RESIDENT_PAGES * set.page_bytes);
    resident_finish(&set);
    close(fd);
}
