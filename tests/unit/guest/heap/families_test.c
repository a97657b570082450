/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function of malloc's family while every allocation is sampled: each block is in the table
 * once, with the requested size, until it is freed. families_test.sh runs this under several
 * allocators. */
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const int cpp_families;
void *cpp_new(int family, size_t size);
void cpp_delete(int family, void *block, size_t size);
int cpp_throws(size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void *mallocx(size_t size, int flags) __attribute__((weak));
void *rallocx(void *block, size_t size, int flags) __attribute__((weak));
void dallocx(void *block, int flags) __attribute__((weak));
void sdallocx(void *block, size_t size, int flags) __attribute__((weak));

#define SIZE 1237u

static void sample_everything(void) {
    CHECK_INT(fixture_start(1, 0), ==, 0);
}

static void check_lives(const void *block, size_t size) {
    struct fixture_live live = fixture_find(block);
    CHECK(block != NULL);
    CHECK_INT(live.found, ==, 1);
    CHECK_INT(live.size, ==, size);
    CHECK_NEAR(live.objects, 1, 0);
    CHECK_INT(live.tid, ==, syscall(SYS_gettid));
}

/* Hides from the compiler that the block has been freed. */
static void check_is_gone(const void *block) {
    CHECK_INT(fixture_find(block).found, ==, 0);
}

static const void *hidden(const void *block) {
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void check_block(void *block, size_t size) {
    const void *same = hidden(block);
    check_lives(block, size);
    free(block);
    check_is_gone(same);
}

TEST(each_allocation_function_and_its_free_are_seen) {
    void *block = NULL;
    sample_everything();
    check_block(malloc(SIZE), SIZE);
    check_block(calloc(SIZE, 2), 2 * SIZE);
    check_block(realloc(NULL, SIZE), SIZE);
    check_block(reallocarray(NULL, 3, SIZE), 3 * SIZE);
    check_block(memalign(128, SIZE), SIZE);
    check_block(aligned_alloc(64, 1280), 1280);
    CHECK_INT(posix_memalign(&block, 256, SIZE), ==, 0);
    check_block(block, SIZE);
    check_block(valloc(SIZE), SIZE);
    if (strstr(fixture_allocator(), "jemalloc") ==
        NULL) /* it has none: the block would be from libc */
        check_block(pvalloc(SIZE), SIZE);
    fixture_stop();
}

/* libc calls malloc through an import of its own. */
TEST(allocations_inside_libc_are_seen) {
    sample_everything();
    char *copy = strdup("twelve bytes"), *line = NULL;
    check_block(copy, 13);
    CHECK_INT(asprintf(&line, "%d", 4711), ==, 4);
    const void *same = hidden(line);
    CHECK_INT(fixture_find(line).found, ==, 1);
    free(line);
    check_is_gone(same);
    fixture_stop();
}

TEST(each_operator_new_and_its_delete_are_seen_once) {
    sample_everything();
    for (int family = 0; family < cpp_families; family++) {
        void *block = cpp_new(family, SIZE + (unsigned)family);
        const void *same = hidden(block);
        struct fixture_live live = fixture_find(block);
        CHECK_INT(live.found, ==, 1);
        CHECK_INT(live.size, >=, SIZE + (unsigned)family);
        CHECK_INT(live.size, <, SIZE + (unsigned)family + 64);
        cpp_delete(family, block, SIZE + (unsigned)family);
        check_is_gone(same);
    }
    uint64_t before = fixture_totals().samples;
    cpp_delete(0, cpp_new(0, SIZE), SIZE);
    CHECK_INT(fixture_totals().samples, ==, before + 1); /* not twice */
    fixture_stop();
}

TEST(an_operator_new_that_fails_throws_through_the_sampler) {
    sample_everything();
    if (strstr(fixture_allocator(), "mimalloc"))
        check_skip("this allocator aborts");
    CHECK(cpp_throws((size_t)1 << 62));
    CHECK(!cpp_throws(SIZE));
    fixture_stop();
    CHECK(cpp_throws((size_t)1 << 62));
}

TEST(jemallocs_own_names_are_seen) {
    if (!mallocx || strstr(fixture_allocator(), "jemalloc") == NULL)
        check_skip("malloc is not jemalloc's");
    sample_everything();
    void *block = mallocx(SIZE, 0);
    check_lives(block, SIZE);
    const void *same = hidden(block);
    block = rallocx(block, 100 * SIZE, 0);
    check_lives(block, 100 * SIZE);
    if (block != same)
        check_is_gone(same);
    same = hidden(block);
    sdallocx(block, 100 * SIZE, 0);
    check_is_gone(same);
    block = mallocx(SIZE, 0);
    same = hidden(block);
    dallocx(block, 0);
    check_is_gone(same);
    fixture_stop();
}

TEST(a_block_that_is_resized_stays_one_block) {
    sample_everything();
    void *block = malloc(SIZE);
    const void *old = hidden(block);
    block = realloc(block, SIZE - 9); /* in its place */
    check_lives(block, SIZE - 9);
    block = realloc(block, 5000000); /* elsewhere */
    check_lives(block, 5000000);
    if (block != old)
        check_is_gone(old);
    check_block(block, 5000000);
    fixture_stop();
}

TEST(a_resize_that_fails_leaves_the_block_as_it_was) {
    sample_everything();
    void *block = malloc(SIZE);
    uint64_t time = fixture_find(block).time_ns;
    size_t impossible = (size_t)1 << 62;
    __asm__ volatile("" : "+r"(impossible));
    errno = 0;
    CHECK(realloc(block, impossible) == NULL);
    CHECK_INT(errno, ==, ENOMEM);
    check_lives(block, SIZE);
    CHECK_INT(fixture_find(block).time_ns, ==, time);
    size_t half = SIZE_MAX / 2;
    __asm__ volatile("" : "+r"(half));
    errno = 0;
    CHECK(reallocarray(block, half, 4) == NULL);
    CHECK_INT(errno, ==, ENOMEM);
    check_lives(block, SIZE);
    check_block(block, SIZE);
    fixture_stop();
}

TEST(a_resize_to_zero_does_what_the_allocator_does) {
    sample_everything();
    void *block = malloc(SIZE);
    const void *old = hidden(block);
    void *left = realloc(block, 0);
    CHECK_INT(fixture_find(old).found, ==, left == old && left != NULL);
    free(left);
    check_is_gone(old);
    fixture_stop();
}

TEST(a_failed_allocation_is_not_sampled) {
    sample_everything();
    size_t impossible = (size_t)1 << 62;
    __asm__ volatile("" : "+r"(impossible));
    uint64_t before = fixture_totals().samples;
    CHECK(malloc(impossible) == NULL);
    CHECK(calloc(impossible, 8) == NULL);
    void *block = NULL;
    CHECK(posix_memalign(&block, 64, impossible) != 0);
    CHECK_INT(fixture_totals().samples, ==, before);
    fixture_stop();
}

TEST(errno_is_kept) {
    sample_everything();
    for (int i = 0; i < 3; i++) {
        errno = 77;
        void *block = malloc(SIZE);
        CHECK_INT(errno, ==, 77);
        free(block);
        CHECK_INT(errno, ==, 77);
    }
    fixture_stop();
}

TEST(blocks_allocated_before_sampling_are_freed_normally) {
    void *early[100];
    for (int i = 0; i < 100; i++)
        early[i] = malloc(SIZE);
    sample_everything();
    for (int i = 0; i < 50; i++)
        free(early[i]);
    for (int i = 50; i < 100; i++)
        early[i] = realloc(early[i], 2 * SIZE);
    CHECK_NEAR(fixture_live_objects(2 * SIZE), 50, 0);
    for (int i = 50; i < 100; i++)
        free(early[i]);
    CHECK_NEAR(fixture_live_objects(2 * SIZE), 0, 0);
    fixture_stop();
}

TEST(h11_the_guests_own_thread_is_not_seen) {
    sample_everything();
    fixture_exclude_self();
    void *block = malloc(SIZE);
    CHECK_INT(fixture_find(block).found, ==, 0);
    free(block);
    fixture_stop();
}
