/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/table.h"
#include "service/unwind/table/table_cache.h"
#include "tests/unit/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LD   "/lib64/ld-linux-x86-64.so.2"

static char dir[256];

/* A new empty directory for each test. */
static const char *fresh_dir(void) {
    const char *base = getenv("TEST_TMPDIR");
    snprintf(dir, sizeof dir, "%s/unwind.XXXXXX", base ? base : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    return dir;
}

static struct unwind_cache *cache_in(const char *where, uint64_t limit) {
    struct unwind_cache *cache;
    CHECK_INT(unwind_cache_create(where, limit, &cache, NULL), ==, SONDE_OK);
    return cache;
}

static int get(struct unwind_cache *cache, const char *identity, const char *path, size_t *bytes) {
    int memfd, fd = open(path, O_RDONLY | O_CLOEXEC);
    sonde_err err = unwind_cache_get(cache, identity, fd, -1, NULL, &memfd, bytes);
    close(fd);
    CHECK_INT(err, ==, SONDE_OK);
    return memfd;
}

static void get_and_drop(struct unwind_cache *cache, const char *identity, const char *path) {
    size_t bytes;
    close(get(cache, identity, path, &bytes));
}

static struct unwind_cache_counters counters_of(struct unwind_cache *cache) {
    struct unwind_cache_counters counters;
    unwind_cache_counters(cache, &counters);
    return counters;
}

static ino_t inode_of(int fd) {
    struct stat status;
    fstat(fd, &status);
    return status.st_ino;
}

static int files_in_dir(void) {
    DIR *open_dir = opendir(dir);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(open_dir)) != NULL;)
        count += entry->d_name[0] != '.' || strncmp(entry->d_name, ".new-", 5) == 0;
    closedir(open_dir);
    return count;
}

static const char *kept_path(const char *identity) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.unwind", dir, identity);
    return path;
}

TEST(a_table_is_a_sealed_memfd) {
    size_t bytes;
    struct unwind_cache *cache = cache_in(NULL, 0);
    int memfd = get(cache, "libc", LIBC, &bytes);
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    CHECK_INT(fcntl(memfd, F_GET_SEALS) & seals, ==, seals);
    CHECK_INT(write(memfd, "x", 1), ==, -1);
    CHECK(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0) == MAP_FAILED);
    CHECK_INT(ftruncate(memfd, 0), ==, -1);
    CHECK_INT(fcntl(memfd, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
    void *image = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memfd, 0);
    CHECK(image != MAP_FAILED);
    CHECK_INT(unwind_table_check(image, bytes), ==, SONDE_OK);
    munmap(image, bytes);
    close(memfd);
    unwind_cache_destroy(cache);
}

TEST(one_identity_is_one_memfd) {
    size_t bytes;
    struct unwind_cache *cache = cache_in(NULL, 0);
    int first = get(cache, "ld", LD, &bytes), second = get(cache, "ld", LD, &bytes);
    int other = get(cache, "libc", LIBC, &bytes);
    CHECK_INT(inode_of(first), ==, inode_of(second));
    CHECK(inode_of(first) != inode_of(other));
    CHECK_INT(counters_of(cache).builds, ==, 2);
    CHECK_INT(counters_of(cache).hits, ==, 1);
    close(first), close(second), close(other);
    unwind_cache_destroy(cache);
}

TEST(a_new_cache_finds_the_table_on_disk) {
    struct unwind_cache *cache = cache_in(fresh_dir(), 0);
    get_and_drop(cache, "abc", LD);
    unwind_cache_destroy(cache);
    CHECK_INT(files_in_dir(), ==, 1);
    cache = cache_in(dir, 0);
    get_and_drop(cache, "abc", LD);
    CHECK_INT(counters_of(cache).disk_hits, ==, 1);
    CHECK_INT(counters_of(cache).builds, ==, 0);
    unwind_cache_destroy(cache);
}

/* Changes one byte of the stored table. */
static void damage(const char *identity, off_t at) {
    int fd = open(kept_path(identity), O_RDWR | O_CLOEXEC);
    uint8_t byte;
    CHECK_INT(pread(fd, &byte, 1, at), ==, 1);
    byte ^= 0x10;
    CHECK_INT(pwrite(fd, &byte, 1, at), ==, 1);
    close(fd);
}

TEST(a_damaged_table_is_deleted_and_built_again) {
    struct unwind_cache *cache = cache_in(fresh_dir(), 0);
    get_and_drop(cache, "abc", LD);
    unwind_cache_destroy(cache);
    const off_t places[] = {0, 8, 40, 80, 200, 1000, 9000};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        damage("abc", places[i]);
        cache = cache_in(dir, 0);
        get_and_drop(cache, "abc", LD);
        CHECK_INT(counters_of(cache).discarded, ==, 1);
        CHECK_INT(counters_of(cache).builds, ==, 1);
        unwind_cache_destroy(cache);
    }
    CHECK_INT(truncate(kept_path("abc"), 100), ==, 0);
    cache = cache_in(dir, 0);
    get_and_drop(cache, "abc", LD);
    CHECK_INT(counters_of(cache).discarded, ==, 1);
    unwind_cache_destroy(cache);
}

TEST(the_directory_stays_within_its_limit_and_loses_the_oldest) {
    struct unwind_cache *cache = cache_in(fresh_dir(), 64 << 10); /* ld's table is about 14 KB */
    for (char name[] = "a"; name[0] <= 'h'; name[0]++) {
        get_and_drop(cache, name, LD);
        usleep(2000);
    }
    CHECK_INT(files_in_dir(), >=, 3);
    CHECK_INT(files_in_dir(), <=, 4);
    CHECK_INT(access(kept_path("h"), F_OK), ==, 0);
    CHECK_INT(access(kept_path("a"), F_OK), ==, -1);
    unwind_cache_destroy(cache);
}

TEST(an_identity_that_is_not_a_name_is_refused) {
    struct unwind_cache *cache = cache_in(fresh_dir(), 0);
    const char *const wrong[] = {"", "../x", "a/b", ".hidden", "a b", "a\n"};
    int memfd;
    size_t bytes;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(unwind_cache_get(cache, wrong[i], 0, -1, NULL, &memfd, &bytes), ==,
                  SONDE_INVALID_ARGUMENT);
    char longest[UNWIND_CACHE_IDENTITY + 2];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    CHECK_INT(unwind_cache_get(cache, longest, 0, -1, NULL, &memfd, &bytes), ==,
              SONDE_INVALID_ARGUMENT);
    longest[sizeof longest - 2] = 0;
    get_and_drop(cache, longest, LD);
    CHECK_INT(files_in_dir(), ==, 1);
    unwind_cache_destroy(cache);
}

TEST(a_failure_is_reported_and_not_cached) {
    struct unwind_cache *cache = cache_in(NULL, 0);
    struct sonde_diag diag = {0};
    int memfd, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t bytes;
    CHECK_INT(unwind_cache_get(cache, "x", fd, -1, &diag, &memfd, &bytes), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(diag.text[0] != 0);
    CHECK_INT(memfd, ==, -1);
    close(fd);
    get_and_drop(cache, "x", LD);
    CHECK_INT(counters_of(cache).failures, ==, 1);
    unwind_cache_destroy(cache);
}

TEST(a_directory_that_cannot_be_created_is_an_error) {
    struct unwind_cache *cache;
    struct sonde_diag diag = {0};
    CHECK_INT(unwind_cache_create("/proc/none/here", 0, &cache, &diag), ==, SONDE_IO);
    CHECK(cache == NULL);
    CHECK_INT(diag.os_error, ==, ENOENT);
}

static void *ask_for_libc(void *context) {
    size_t bytes;
    int memfd, fd = open(LIBC, O_RDONLY | O_CLOEXEC);
    sonde_err err = unwind_cache_get(context, "libc", fd, -1, NULL, &memfd, &bytes);
    close(fd);
    close(memfd);
    return err == SONDE_OK ? context : NULL;
}

TEST(concurrent_gets_build_once) {
    struct unwind_cache *cache = cache_in(fresh_dir(), 0);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, ask_for_libc, cache);
    for (int i = 0; i < 8; i++) {
        void *answer;
        pthread_join(threads[i], &answer);
        CHECK(answer == cache);
    }
    CHECK_INT(counters_of(cache).builds, ==, 1);
    CHECK_INT(counters_of(cache).hits, ==, 7);
    unwind_cache_destroy(cache);
}

/* --- Eviction --- */

#define OTHERS (UNWIND_CACHE_ENTRIES + 8)

/* The second time each of them has been evicted meanwhile. */
static void get_others(struct unwind_cache *cache) {
    char identity[16];
    for (unsigned i = 0; i < OTHERS; i++) {
        snprintf(identity, sizeof identity, "other%u", i);
        get_and_drop(cache, identity, LD);
    }
}

TEST(too_many_tables_evict_the_least_recently_used) {
    struct unwind_cache *cache = cache_in(NULL, 0);
    get_others(cache);
    CHECK_INT(counters_of(cache).builds, ==, OTHERS);
    get_and_drop(cache, "other8", LD);
    CHECK_INT(counters_of(cache).hits, ==, 1);
    get_and_drop(cache, "other7", LD);
    CHECK_INT(counters_of(cache).builds, ==, OTHERS + 1);
    unwind_cache_destroy(cache);
}

/* A build that stops at its first byte until it is told to continue: its file is in memory that
 * cannot be read before. */
static struct {
    struct unwind_cache *cache;
    char *bytes;
    size_t size;
    sem_t reached, released;
    _Atomic pid_t waiter; /* the thread that is about to wait for the build */
} slow;

static void on_first_byte(int number) {
    sem_post(&slow.reached);
    while (sem_wait(&slow.released) != 0)
        continue;
    mprotect(slow.bytes, slow.size, PROT_READ);
}

static void *get_slow(void *unused) {
    size_t bytes;
    int memfd;
    sonde_err err =
        unwind_cache_get_memory(slow.cache, "slow", slow.bytes, slow.size, NULL, &memfd, &bytes);
    return err == SONDE_OK && close(memfd) == 0 ? &slow : NULL;
}

static void *wait_for_slow(void *unused) {
    slow.waiter = (pid_t)syscall(SYS_gettid);
    return get_slow(unused);
}

static void map_slow(void) {
    int fd = open(LD, O_RDONLY | O_CLOEXEC);
    struct stat status;
    CHECK_INT(fstat(fd, &status), ==, 0);
    slow.size = (size_t)status.st_size;
    slow.bytes = mmap(NULL, slow.size, PROT_NONE, MAP_PRIVATE, fd, 0);
    CHECK(slow.bytes != MAP_FAILED);
    close(fd);
}

static bool is_asleep(pid_t tid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *file = fopen(path, "re");
    if (file && !fgets(text, sizeof text, file))
        text[0] = 0;
    if (file)
        fclose(file);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* Nothing else can hold the cache's lock meanwhile, so a thread that sleeps waits for the build. */
static void start_waiter(pthread_t *thread) {
    slow.waiter = 0;
    pthread_create(thread, NULL, wait_for_slow, NULL);
    while (!slow.waiter || !is_asleep(slow.waiter))
        usleep(1000);
}

TEST(a_table_in_use_survives_eviction) {
    struct sigaction action = {.sa_handler = on_first_byte}, before;
    pthread_t builder, waiter;
    void *built, *waited;
    slow.cache = cache_in(NULL, 0);
    sem_init(&slow.reached, 0, 0);
    sem_init(&slow.released, 0, 0);
    map_slow();
    sigaction(SIGSEGV, &action, &before);
    pthread_create(&builder, NULL, get_slow, NULL);
    while (sem_wait(&slow.reached) != 0)
        continue;
    get_others(slow.cache); /* "slow" is the first to go, but it is being built */
    start_waiter(&waiter);
    get_others(slow.cache); /* the first to go again; the builder is served before the waiter */
    sem_post(&slow.released);
    sem_post(&slow.released); /* for a waiter that builds it a second time, which would be wrong */
    pthread_join(builder, &built);
    pthread_join(waiter, &waited);
    sigaction(SIGSEGV, &before, NULL);
    CHECK(built != NULL);
    CHECK(waited != NULL);
    CHECK_INT(counters_of(slow.cache).hits, ==, 1);
    munmap(slow.bytes, slow.size);
    unwind_cache_destroy(slow.cache);
}
