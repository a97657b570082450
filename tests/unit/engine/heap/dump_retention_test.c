/* SPDX-License-Identifier: Apache-2.0
 *
 * Which dumps of ended processes are kept, and that those of living ones are not removed. */
#include "service/engine/heap/dump_retention.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOUR_NS (3600ll * 1000000000)

static char dir[64];
static const struct heap_sweep_limits wide = {24 * HOUR_NS, 100, 1 << 30};

static void begin(void) {
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)) != NULL);
}

static void end(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK_INT(system(command), ==, 0);
}

static void put_file(const char *folder, const char *name, size_t bytes) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s/%s", dir, folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    close(fd);
}

/* Creates a directory of that process with one dump, last changed that many hours ago. */
static void put_folder(const char *folder, uint64_t ticks, size_t bytes, int hours) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    CHECK_INT(mkdir(path, 0700), ==, 0);
    put_file(folder, "000001.heap", bytes);
    snprintf(path, sizeof path, "%s/%s/state", dir, folder);
    FILE *state = fopen(path, "we");
    fprintf(state, "sonde-heap 1\nprocess 1 ticks %" PRIu64 "\nactive 1\n", ticks);
    CHECK_INT(fclose(state), ==, 0);
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= hours * 3600;
    times[1] = times[0];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    CHECK_INT(utimensat(AT_FDCWD, path, times, 0), ==, 0);
}

static bool exists(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

TEST(dumps_of_a_living_process_stay_however_old_and_large) {
    char folder[32];
    const struct heap_sweep_limits none = {0, 0, 0};
    begin();
    snprintf(folder, sizeof folder, "%d-aa", (int)getpid());
    put_folder(folder, heap_sweep_ticks(getpid()), 1 << 20, 1000);
    CHECK_INT(heap_sweep(dir, &none), ==, 0);
    CHECK(exists(folder));
    end();
}

TEST(a_later_process_with_the_pid_of_an_ended_one_does_not_keep_its_dumps) {
    char folder[32];
    begin();
    snprintf(folder, sizeof folder, "%d-bb", (int)getpid());
    put_folder(folder, heap_sweep_ticks(getpid()) - 1, 100, 25);
    CHECK_INT(heap_sweep(dir, &wide), ==, 1);
    CHECK(!exists(folder));
    end();
}

/* A pid above the kernel's maximum. */
TEST(dumps_of_ended_processes_go_by_age) {
    begin();
    put_folder("900000001-a1", 5, 100, 1);
    put_folder("900000002-a2", 5, 100, 25);
    CHECK_INT(heap_sweep(dir, &wide), ==, 1);
    CHECK(exists("900000001-a1") && !exists("900000002-a2"));
    end();
}

TEST(the_newest_are_kept_within_a_number_and_a_size) {
    struct heap_sweep_limits limits = wide;
    begin();
    put_folder("900000001-a1", 5, 100 << 10, 1);
    put_folder("900000002-a2", 5, 100 << 10, 2);
    put_folder("900000003-a3", 5, 100 << 10, 3);
    limits.bytes = 250 << 10;
    CHECK_INT(heap_sweep(dir, &limits), ==, 1);
    CHECK(exists("900000002-a2") && !exists("900000003-a3"));
    limits.count = 1;
    CHECK_INT(heap_sweep(dir, &limits), ==, 1);
    CHECK(exists("900000001-a1") && !exists("900000002-a2"));
    CHECK_INT(heap_sweep(dir, &limits), ==, 0);
    end();
}

TEST(what_is_not_ours_stays) {
    const struct heap_sweep_limits none = {0, 0, 0};
    begin();
    put_folder("900000001-a1", 5, 100, 1);
    put_file("900000001-a1", "notes.txt", 10);
    put_folder("900000002-a2", 5, 100, 1);
    put_file("900000002-a2", "unfinished-7", 10);
    put_file(".", "900000003-a3", 10);
    CHECK_INT(heap_sweep(dir, &none), ==, 1);
    CHECK(exists("900000001-a1/notes.txt") && !exists("900000001-a1/000001.heap"));
    CHECK(exists("900000003-a3") && !exists("900000002-a2"));
    end();
}

TEST(names_are_a_pid_and_hexadecimal_digits) {
    static const char *const bad[] = {"",        "1",     "-a",     "1-",           "1-xyz",
                                      "1-a/../", "0-abc", "-1-abc", "x1-abc",       "1 -abc",
                                      "1-A",     "1-a ",  "..",     "99999999999-a"};
    int32_t pid;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!heap_sweep_parse_name(bad[i], &pid));
    CHECK(heap_sweep_parse_name("4711-0123456789abcdef0123456789abcdef", &pid));
    CHECK_INT(pid, ==, 4711);
}
