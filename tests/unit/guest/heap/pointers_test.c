/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls through pointers to malloc and free. Pointers in data that the linker fills, as in tables
 * of functions, are patched like other imports. Copies that the program made earlier are not, so a
 * free may go unseen; the stale sample is removed when the address is used again. */
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <dlfcn.h>
#include <stdlib.h>

struct hooks {
    void *(*allocate)(size_t size);
    void *(*resize)(void *block, size_t size);
    void (*release)(void *block);
};

static const struct hooks fixed_hooks = {malloc, realloc, free};
static struct hooks open_hooks = {malloc, realloc, free};
/* Volatile, so that the compiler reads the pointers from memory. */
static const struct hooks *volatile some_hooks;
static void (*volatile unseen_free)(void *block);

static void sample_everything(void) {
    CHECK_INT(fixture_start(1, 0), ==, 0);
}

static void check_table(const struct hooks *hooks) {
    some_hooks = hooks;
    struct hooks before = *some_hooks;
    sample_everything();
    void *block = some_hooks->allocate(5000);
    CHECK_INT(fixture_find(block).found, ==, 1);
    CHECK_INT(fixture_find(block).size, ==, 5000);
    block = some_hooks->resize(block, 9000);
    CHECK_INT(fixture_find(block).found, ==, 1);
    CHECK_INT(fixture_find(block).size, ==, 9000);
    some_hooks->release(block);
    CHECK_INT(fixture_find(block).found, ==, 0);
    fixture_stop();
    CHECK(some_hooks->allocate == before.allocate && some_hooks->release == before.release);
}

TEST(calls_through_tables_of_function_pointers_are_seen) {
    check_table(&fixed_hooks);
    check_table(&open_hooks);
}

/* Frees a sampled block through a pointer that is not patched. */
static void *leave_stale_entry(size_t size) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(libc != NULL);
    unseen_free = (void (*)(void *))dlsym(libc, "free"); /* not through an import */
    CHECK(unseen_free != NULL);
    sample_everything();
    void *block = malloc(size);
    CHECK_INT(fixture_find(block).found, ==, 1);
    unseen_free(block);
    CHECK_INT(fixture_find(block).found, ==, 1);
    return block;
}

TEST(a_sample_replaces_the_sample_of_an_unseen_free_at_its_address) {
    void *block = leave_stale_entry(777);
    uint32_t live = fixture_totals().live;
    void *other = malloc(778); /* glibc reuses the last freed block first */
    CHECK(other == block);
    CHECK_INT(fixture_find(other).found, ==, 1);
    CHECK_INT(fixture_find(other).size, ==, 778);
    CHECK_INT(fixture_totals().live, <=, live);
    free(other);
    CHECK_INT(fixture_find(other).found, ==, 0);
    fixture_stop();
}

TEST(a_free_removes_the_sample_of_an_earlier_unseen_free) {
    void *block = leave_stale_entry(777);
    CHECK_INT(fixture_start(1ull << 40, 0), ==, 0); /* the next block is not sampled */
    void *other = malloc(778);
    CHECK(other == block);
    CHECK_INT(fixture_find(other).size, ==, 777); /* the stale sample */
    free(other);
    CHECK_INT(fixture_find(other).found, ==, 0);
    fixture_stop();
}
