/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of saved dumps. */
#include "service/engine/heap/dumps.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[32], dir[64];
static struct heap_dumps dumps;

static void begin(void) {
    CHECK(mkdtemp(temporary_template(base, sizeof base)) != NULL);
    snprintf(dir, sizeof dir, "%s/heap/1-abc", base);
    CHECK_INT(heap_dumps_open(&dumps, dir), ==, SONDE_OK);
}

static void end(void) {
    char command[64];
    heap_dumps_finish(&dumps);
    snprintf(command, sizeof command, "rm -r %s", base);
    CHECK_INT(system(command), ==, 0);
}

static int some_bytes(size_t size) {
    int fd = memfd_create("dump", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    return fd;
}

/* Writes a dump and adds it to the list. */
static sonde_err keep(size_t size, uint64_t limit, struct sonde_diag *diag) {
    uint64_t bytes = 0;
    int fd = some_bytes(size);
    CHECK_INT(heap_dumps_prepare(&dumps, diag), ==, SONDE_OK);
    char *path = heap_dumps_unfinished(&dumps);
    sonde_err err = heap_dumps_write(path, fd, limit, &bytes, diag);
    if (!err)
        err = heap_dumps_add(&dumps, path, bytes, 1, diag);
    close(fd);
    free(path);
    return err;
}

static bool exists(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static uint32_t files(void) {
    char command[128];
    snprintf(command, sizeof command, "ls -A %s | wc -l", dir);
    FILE *pipe = popen(command, "r");
    uint32_t count = 0;
    CHECK_INT(fscanf(pipe, "%u", &count), ==, 1);
    pclose(pipe);
    return count;
}

TEST(names_are_six_digits_and_heap_and_nothing_else) {
    uint32_t number;
    CHECK(heap_dumps_parse_name("000001.heap", &number) && number == 1);
    CHECK(heap_dumps_parse_name("999999.heap", &number) && number == 999999);
    static const char *const wrong[] = {"",
                                        "1.heap",
                                        "0000001.heap",
                                        "000000.heap",
                                        "000001.HEAP",
                                        "000001.heap/",
                                        "../00001.heap",
                                        "00001x.heap",
                                        "000001",
                                        "000001.hea",
                                        "/000001.heap"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!heap_dumps_parse_name(wrong[i], &number));
}

TEST(dumps_are_numbered_from_one_in_a_private_directory) {
    struct stat status;
    begin();
    CHECK_INT(keep(1000, 1 << 20, NULL), ==, SONDE_OK);
    CHECK_INT(keep(2000, 1 << 20, NULL), ==, SONDE_OK);
    CHECK(exists("000001.heap") && exists("000002.heap"));
    CHECK_INT(files(), ==, 2);
    CHECK_INT(dumps.bytes, ==, 3000);
    CHECK(stat(dir, &status) == 0 && (status.st_mode & 0777) == 0700);
    heap_dumps_delete(&dumps);
    CHECK_INT(files(), ==, 0);
    CHECK_INT(keep(1, 10, NULL), ==, SONDE_OK);
    CHECK(exists("000001.heap"));
    end();
}

TEST(h9_another_sonded_finds_the_dumps_and_continues_their_numbers) {
    begin();
    CHECK_INT(keep(10, 100, NULL), ==, SONDE_OK);
    CHECK_INT(keep(20, 100, NULL), ==, SONDE_OK);
    char unfinished[128], link[128];
    snprintf(unfinished, sizeof unfinished, "%s/unfinished-7", dir);
    snprintf(link, sizeof link, "%s/000009.heap", dir);
    CHECK(creat(unfinished, 0600) >= 0);
    CHECK_INT(symlink("/etc/passwd", link), ==, 0);
    heap_dumps_finish(&dumps);
    CHECK_INT(heap_dumps_open(&dumps, dir), ==, SONDE_OK);
    CHECK_INT(dumps.count, ==, 2);
    CHECK_INT(dumps.items[1].number, ==, 2);
    CHECK_INT(dumps.items[1].bytes, ==, 20);
    CHECK(!exists("unfinished-7"));
    CHECK(heap_dumps_find(&dumps, 9) == NULL);
    CHECK_INT(keep(30, 100, NULL), ==, SONDE_OK);
    CHECK(exists("000003.heap"));
    end();
}

TEST(after_999999_the_first_free_number_is_used) {
    begin();
    CHECK_INT(keep(10, 100, NULL), ==, SONDE_OK);
    dumps.last_number = 999998;
    CHECK_INT(keep(10, 100, NULL), ==, SONDE_OK);
    CHECK_INT(keep(10, 100, NULL), ==, SONDE_OK);
    CHECK(exists("999999.heap") && exists("000002.heap"));
    end();
}

TEST(quotas_of_count_and_bytes_drop_the_oldest_but_never_the_newest) {
    begin();
    for (int i = 0; i < 5; i++)
        CHECK_INT(keep(1000, 10000, NULL), ==, SONDE_OK);
    heap_dumps_prune(&dumps, 3, 1 << 20);
    CHECK_INT(dumps.count, ==, 3);
    CHECK(!exists("000002.heap") && exists("000003.heap"));
    heap_dumps_prune(&dumps, 3, 2500);
    CHECK_INT(dumps.count, ==, 2);
    CHECK_INT(dumps.bytes, ==, 2000);
    heap_dumps_prune(&dumps, 1, 10);
    CHECK_INT(dumps.count, ==, 1);
    CHECK(exists("000005.heap"));
    end();
}

TEST(h8_a_full_disk_leaves_nothing_behind) {
    struct sonde_diag diag = {0};
    struct rlimit old, small;
    begin();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    small = (struct rlimit){8192, old.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
    int fd = memfd_create("dump", 0);
    char bytes[8192] = {0};
    CHECK_INT(write(fd, bytes, sizeof bytes), ==, sizeof bytes);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, old.rlim_max}), ==, 0);
    uint64_t written;
    CHECK_INT(heap_dumps_prepare(&dumps, &diag), ==, SONDE_OK);
    char *path = heap_dumps_unfinished(&dumps);
    CHECK_INT(heap_dumps_write(path, fd, 1 << 20, &written, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "a heap dump cannot be written") != NULL);
    CHECK(strchr(diag.text, '/') == NULL); /* no path */
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    CHECK_INT(files(), ==, 0);
    CHECK_INT(dumps.count, ==, 0);
    free(path);
    close(fd);
    end();
}

/* Mounts a file system of 256 KiB. False where that is not permitted. */
static bool mount_small(const char *path) {
    return mkdir(path, 0700) == 0 &&
           (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, "size=256k") == 0;
}

TEST(h8_a_full_file_system_keeps_complete_dumps_and_dumps_resume_when_there_is_space) {
    char small[64];
    struct sonde_diag diag = {0};
    begin();
    heap_dumps_finish(&dumps);
    snprintf(small, sizeof small, "%s/small", base);
    if (!mount_small(small))
        check_skip("no file system may be mounted here");
    snprintf(dir, sizeof dir, "%s/small/1-abc", base);
    CHECK_INT(heap_dumps_open(&dumps, dir), ==, SONDE_OK);
    CHECK_INT(keep(100000, 1 << 20, &diag), ==, SONDE_OK);
    CHECK_INT(keep(400000, 1 << 20, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "No space left") != NULL);
    CHECK_INT(files(), ==, 1);
    CHECK_INT(dumps.count, ==, 1);
    CHECK_INT(keep(120000, 1 << 20, &diag), ==, SONDE_OK); /* no part of it takes up space */
    CHECK_INT(files(), ==, 2);
    heap_dumps_delete(&dumps);
    CHECK_INT(umount(small), ==, 0);
    end();
}

TEST(a_dump_larger_than_the_limit_is_refused) {
    struct sonde_diag diag = {0};
    begin();
    CHECK_INT(keep(1001, 1000, &diag), ==, SONDE_TOO_LARGE);
    CHECK_INT(files(), ==, 0);
    end();
}

TEST(h8_a_directory_that_cannot_be_created_is_an_error) {
    struct sonde_diag diag = {0};
    struct heap_dumps nowhere;
    CHECK_INT(heap_dumps_open(&nowhere, "/proc/heap/x"), ==, SONDE_OK);
    CHECK_INT(heap_dumps_prepare(&nowhere, &diag), ==, SONDE_IO);
    heap_dumps_finish(&nowhere);
    CHECK_INT(heap_dumps_open(&nowhere, NULL), ==, SONDE_OK);
    CHECK_INT(heap_dumps_prepare(&nowhere, &diag), ==, SONDE_NOT_AVAILABLE);
    heap_dumps_finish(&nowhere);
}
