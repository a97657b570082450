/* SPDX-License-Identifier: Apache-2.0
 *
 * Situations that a sampler which replaces malloc must survive. */
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE "tests/unit/guest/heap/liblate.so"

static void sample_everything(void) {
    CHECK_INT(fixture_start(1, 0), ==, 0);
}

/* ---- Under locks of libc ---- */

static void *ask_for_bounds(void *unused) {
    for (int i = 0; i < 200; i++) {
        pthread_attr_t attr;
        if (pthread_getattr_np(pthread_self(), &attr) != 0)
            return (void *)1;
        pthread_attr_destroy(&attr);
    }
    return NULL;
}

/* glibc reads the main thread's bounds with fopen, under a lock. */
TEST(a_program_that_asks_for_its_stack_bounds_does_not_deadlock) {
    pthread_t threads[4];
    void *failed = NULL;
    sample_everything();
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, ask_for_bounds, NULL), ==, 0);
    CHECK(ask_for_bounds(NULL) == NULL);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    fixture_stop();
}

/* The linker allocates dlerror's text under its lock. */
TEST(the_dynamic_linker_may_allocate) {
    sample_everything();
    for (int i = 0; i < 100; i++) {
        CHECK(dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
        CHECK(dlerror() != NULL);
        CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL);
    }
    fixture_stop();
}

/* ---- Forks ---- */

static int churn(int rounds, size_t size) {
    void *held[64] = {0};
    for (int i = 0; i < rounds; i++) {
        free(held[i % 64]);
        held[i % 64] = malloc(size + (size_t)i % 32);
        if (!held[i % 64])
            return 1;
    }
    for (int i = 0; i < 64; i++)
        free(held[i]);
    return 0;
}

TEST(h12_the_child_of_a_fork_works_and_is_not_sampled) {
    sample_everything();
    void *block = malloc(777);
    uint64_t before = fixture_totals().samples;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(block);
            _exit(churn(1000, 100));
        }
        int status = -1;
        CHECK_INT(waitpid(child, &status, 0), ==, child);
        CHECK_INT(status, ==, 0);
    }
    CHECK_INT(fixture_totals().samples - before, <, 100);
    CHECK_INT(fixture_find(block).found, ==, 1); /* the child has freed its own copy */
    free(block);
    fixture_stop();
}

static int sample_in_child(void) {
    fixture_after_fork();
    if (churn(1000, 100) != 0 || fixture_start(1, 0) != 0)
        return 2;
    void *block = malloc(4321);
    if (fixture_find(block).found != 1 || fixture_find(block).tid != (uint32_t)getpid())
        return 3;
    free(block);
    if (fixture_totals().live > 16)
        return 4;
    fixture_stop();
    return 0;
}

TEST(h12_the_child_of_a_fork_can_be_sampled_itself) {
    sample_everything();
    void *block = malloc(777);
    pid_t child = fork();
    if (child == 0)
        _exit(sample_in_child());
    int status = -1;
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK_INT(status, ==, 0);
    CHECK_INT(fixture_find(block).found, ==, 1);
    free(block);
    CHECK_INT(fixture_find(block).found, ==, 0);
    fixture_stop();
}

TEST(h12_a_child_of_vfork_may_exec) {
    sample_everything();
    for (int i = 0; i < 10; i++)
        CHECK_INT(system("true"), ==, 0);
    fixture_stop();
}

/* ---- Threads ---- */

static pthread_key_t key;
static const void *_Atomic freed_late;

static void free_late(void *block) {
    freed_late = block;
    free(block);
}

static void *leave_with_block(void *unused) {
    pthread_setspecific(key, malloc(5555));
    return NULL;
}

TEST(a_block_freed_while_its_thread_ends_is_removed) {
    CHECK_INT(pthread_key_create(&key, free_late), ==, 0);
    sample_everything();
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        freed_late = NULL;
        CHECK_INT(pthread_create(&thread, NULL, leave_with_block, NULL), ==, 0);
        pthread_join(thread, NULL);
        CHECK(freed_late != NULL);
    }
    CHECK_NEAR(fixture_live_objects(5555), 0, 0);
    fixture_stop();
    pthread_key_delete(key);
}

#define PLACES 512

static void *_Atomic places[PLACES];
static _Atomic bool stops;

/* Blocks are passed between threads, so one thread frees an address that another one gets next. */
static void *exchange(void *seed) {
    uint64_t random = (uint64_t)seed * 0x9e3779b97f4a7c15ull + 1;
    while (!stops) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        void *block = malloc(40 + (random >> 40) % 3000);
        if (random >> 62 == 0)
            block = realloc(block, 3100 + (random >> 50) % 500);
        free(atomic_exchange(&places[(random >> 33) % PLACES], block));
    }
    return NULL;
}

static void start_storm(pthread_t *threads, int count) {
    stops = false;
    for (int i = 0; i < count; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, exchange, (void *)(uintptr_t)(i + 1)), ==, 0);
}

static void end_storm(pthread_t *threads, int count) {
    stops = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void check_places(void) {
    for (int i = 0; i < PLACES; i++) {
        void *block = places[i];
        if (block)
            CHECK_INT(fixture_find(block).found, ==, 1);
    }
}

static void free_places(void) {
    for (int i = 0; i < PLACES; i++)
        free(atomic_exchange(&places[i], NULL));
}

TEST(h12_a_storm_of_threads_leaves_the_right_pairs) {
    pthread_t threads[8];
    sample_everything();
    uint32_t before = fixture_totals().live;
    start_storm(threads, 8);
    usleep(400000);
    end_storm(threads, 8);
    check_places();
    struct fixture_totals totals = fixture_totals();
    CHECK_INT(totals.samples, >, 1000);
    CHECK_INT(totals.drops[ALLOC_DROP_LIVE] + totals.drops[ALLOC_DROP_NESTED], ==, 0);
    free_places();
    CHECK_INT(fixture_totals().live, <=, before + 32); /* what glibc keeps per thread */
    fixture_stop();
}

TEST(switching_while_others_allocate_is_safe) {
    pthread_t threads[4];
    start_storm(threads, 4);
    for (int i = 0; i < 300; i++) {
        int error = fixture_start(i % 3 ? 1 : 4096, 0);
        CHECK_INT(error, ==, 0);
        if (i % 5 == 0)
            CHECK_INT(fixture_start(512, i % 2 ? 0.5 : 0), ==, 0);
        fixture_stop();
    }
    end_storm(threads, 4);
    sample_everything();
    void *block = malloc(999);
    CHECK_INT(fixture_find(block).found, ==, 1);
    free(block);
    CHECK_INT(fixture_find(block).found, ==, 0);
    free_places();
    fixture_stop();
}

/* ---- Libraries ---- */

typedef void *late_malloc(size_t size);

TEST(h12_a_library_loaded_later_is_patched_at_the_next_tick) {
    sample_everything();
    void *library = dlopen(LATE, RTLD_NOW);
    CHECK(library != NULL);
    fixture_tick();
    late_malloc *allocate = (late_malloc *)dlsym(library, "late_malloc");
    late_malloc **pointer = (late_malloc **)dlsym(library, "late_pointer");
    void *one = allocate(4242), *other = (*pointer)(4243);
    CHECK_INT(fixture_find(one).found, ==, 1);
    CHECK_INT(fixture_find(other).found, ==, 1);
    free(one);
    free(other);
    CHECK_INT(dlclose(library), ==, 0);
    fixture_tick();
    fixture_stop();
}

TEST(a_patched_library_can_be_unloaded) {
    for (int i = 0; i < 20; i++) {
        void *library = dlopen(LATE, i % 2 ? RTLD_NOW : RTLD_LAZY);
        CHECK(library != NULL);
        sample_everything();
        late_malloc *allocate = (late_malloc *)dlsym(library, "late_malloc");
        void *block = allocate(100);
        CHECK_INT(fixture_find(block).found, ==, 1);
        CHECK_INT(dlclose(library), ==, 0);
        free(block);
        fixture_stop();
    }
}

TEST(a_function_pointer_taken_while_patched_works_afterwards) {
    void *library = dlopen(LATE, RTLD_NOW);
    sample_everything();
    late_malloc *taken = *(late_malloc **)dlsym(library, "late_pointer");
    void *block = taken(64);
    CHECK_INT(fixture_find(block).found, ==, 1);
    fixture_stop();
    free(block);
    CHECK(*(late_malloc **)dlsym(library, "late_pointer") != taken); /* restored */
    block = taken(64);
    CHECK(block != NULL);
    free(block);
    dlclose(library);
}

/* ---- Bounds ---- */

TEST(a_full_table_counts_what_it_drops_and_makes_no_wrong_pairs) {
    enum { MOST = ALLOC_ENTRIES + 50000 };
    void **blocks = calloc(MOST, sizeof *blocks);
    sample_everything();
    for (int i = 0; i < MOST; i++)
        blocks[i] = malloc(24);
    struct fixture_totals full = fixture_totals();
    CHECK_INT(full.drops[ALLOC_DROP_LIVE], >=, 50000);
    CHECK_INT(full.live, >, ALLOC_ENTRIES - 1000);
    CHECK_INT(full.live + full.drops[ALLOC_DROP_LIVE], >=, MOST);
    for (int i = 0; i < MOST; i++)
        free(blocks[i]);
    CHECK_NEAR(fixture_live_objects(24), 0, 0);
    void *block = malloc(24);
    CHECK_INT(fixture_find(block).found, ==, 1);
    free(block);
    fixture_stop();
    free(blocks);
}

static int count_entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static int count_mappings(void) {
    FILE *file = fopen("/proc/self/maps", "re");
    int count = 0;
    for (int byte; file && (byte = getc(file)) != EOF;)
        count += byte == '\n';
    if (file)
        fclose(file);
    return count;
}

TEST(h15_a_thousand_activations_leak_nothing_and_patch_the_same_words) {
    sample_everything();
    uint32_t words = fixture_patched_words();
    fixture_stop();
    CHECK(!fixture_has_memory());
    int mappings = count_mappings(), descriptors = count_entries("/proc/self/fd");
    for (int i = 0; i < 1000; i++) {
        sample_everything();
        CHECK_INT(fixture_patched_words(), ==, words);
        free(malloc(100));
        fixture_stop();
    }
    CHECK_INT(count_mappings(), <=, mappings + 2);
    CHECK_INT(count_entries("/proc/self/fd"), ==, descriptors);
}
