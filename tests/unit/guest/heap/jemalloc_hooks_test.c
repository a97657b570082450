/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler in the hooks of a jemalloc that is part of the program. */
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOKS 4 /* that jemalloc has room for */

int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes);
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);

static void find(void) {
    CHECK(fixture_find_mallctl((const void *)mallctl));
    CHECK_STR(fixture_allocator(), ""); /* the program */
}

static void sample_everything(void) {
    find();
    CHECK_INT(fixture_start_window(1, 0), ==, 0);
}

/* How many hooks the program itself can install now. */
static int free_hooks(void) {
    void *hooks[4] = {NULL}, *handles[HOOKS + 1];
    int count = 0;
    for (size_t bytes = sizeof handles[0]; count <= HOOKS; count++)
        if (mallctl("experimental.hooks.install", &handles[count], &bytes, hooks, sizeof hooks))
            break;
    for (int i = 0; i < count; i++)
        CHECK_INT(mallctl("experimental.hooks.remove", NULL, NULL, &handles[i], sizeof handles[i]),
                  ==, 0);
    return count;
}

#define COUNTS(call, number, size)                                \
    do {                                                          \
        struct fixture_totals before = fixture_totals();          \
        call;                                                     \
        struct fixture_totals after = fixture_totals();           \
        CHECK_NEAR(after.objects - before.objects, number, 1e-9); \
        CHECK_NEAR(after.bytes - before.bytes, size, 1e-6);       \
    } while (0)

TEST(each_function_counts_once_with_the_size_that_it_was_asked_for) {
    void *block, *other;
    sample_everything();
    COUNTS(block = malloc(1000), 1, 1000);
    COUNTS(block = realloc(block, 1010), 1, 1010); /* in place */
    COUNTS(block = realloc(block, 100000), 1, 100000);
    COUNTS(block = realloc(block, 8000000), 1, 8000000);
    COUNTS(free(block), 0, 0);
    COUNTS(block = realloc(NULL, 77), 1, 77);
    COUNTS(block = calloc(3, 7), 1, 21);
    COUNTS(CHECK_INT(posix_memalign(&other, 64, 300), ==, 0), 1, 300);
    COUNTS(block = aligned_alloc(64, 320), 1, 320);
    COUNTS(block = memalign(128, 55), 1, 55);
    COUNTS(block = valloc(66), 1, 66);
    COUNTS(block = mallocx(99, 0), 1, 99);
    COUNTS(block = rallocx(block, 100, 0), 1, 100);
    COUNTS(block = rallocx(block, 50000, 0), 1, 50000);
    COUNTS((void)xallocx(block, 60000, 0, 0), 0, 0); /* as in the malloc wrappers */
    COUNTS(block = mallocx((size_t)1 << 34, 0), 1, 0x1p34);
    COUNTS(free(block), 0, 0);
    fixture_stop_window();
}

TEST(what_fails_does_not_count) {
    void *block = &block;
    volatile size_t huge = SIZE_MAX / 2, many = 4;
    sample_everything();
    COUNTS(CHECK(malloc(huge) == NULL), 0, 0);
    COUNTS(CHECK(calloc(huge, many) == NULL), 0, 0);
    COUNTS(CHECK_INT(posix_memalign(&block, 3, 100), ==, EINVAL), 0, 0);
    fixture_stop_window();
}

TEST(hooks_are_installed_during_windows_only) {
    find();
    CHECK_INT(free_hooks(), ==, HOOKS);
    CHECK_INT(fixture_start_window(524288, 0), ==, 0);
    CHECK_INT(fixture_start_window(4096, 0), ==, 0); /* a second window */
    CHECK_INT(free_hooks(), ==, HOOKS - 1);
    fixture_tick();
    CHECK_INT(free_hooks(), ==, HOOKS - 1);
    fixture_stop_window();
    CHECK_INT(free_hooks(), ==, HOOKS);
    fixture_tick();
    CHECK(!fixture_has_memory());
    CHECK_INT(fixture_start(4096, 0), ==, ENOTSUP); /* heap profiling */
    CHECK_INT(free_hooks(), ==, HOOKS);
}

TEST(a_program_that_uses_all_hooks_itself_is_left_alone) {
    void *hooks[4] = {NULL}, *handles[HOOKS];
    size_t bytes = sizeof handles[0];
    find();
    for (int i = 0; i < HOOKS; i++)
        CHECK_INT(mallctl("experimental.hooks.install", &handles[i], &bytes, hooks, sizeof hooks),
                  ==, 0);
    CHECK_INT(fixture_start_window(1, 0), ==, EAGAIN);
    fixture_tick();
    CHECK(!fixture_has_memory());
    for (int i = 0; i < HOOKS; i++)
        CHECK_INT(mallctl("experimental.hooks.remove", NULL, NULL, &handles[i], sizeof handles[i]),
                  ==, 0);
    CHECK_INT(fixture_start_window(1, 0), ==, 0);
    fixture_stop_window();
}

TEST(the_child_of_a_fork_loses_the_hooks_of_its_parent) {
    sample_everything();
    pid_t child = fork();
    if (child == 0) {
        fixture_after_fork();
        free(malloc(100));
        bool had = free_hooks() == HOOKS - 1;
        fixture_tick();
        _exit(had && free_hooks() == HOOKS ? 0 : 1);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK_INT(status, ==, 0);
    CHECK_INT(free_hooks(), ==, HOOKS - 1);
    fixture_stop_window();
}

static _Atomic bool is_over;

static void *churn(void *unused) {
    while (!is_over)
        free(realloc(malloc(64), 4096));
    return NULL;
}

TEST(hooks_come_and_go_while_threads_allocate) {
    pthread_t threads[4];
    find();
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, churn, NULL), ==, 0);
    for (int i = 0; i < 200; i++) {
        CHECK_INT(fixture_start_window(i % 2 ? 1 : 65536, 0), ==, 0);
        fixture_stop_window();
        fixture_tick();
    }
    is_over = true;
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_join(threads[i], NULL), ==, 0);
}
