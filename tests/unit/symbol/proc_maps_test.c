/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/locate.h"
#include "service/symbol/locate/proc_maps.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u

/* The first line with that start; false if there is none. */
static bool find(struct proc_maps *maps, const void *start, struct proc_maps_line *line) {
    struct proc_maps_reader reader;
    bool found = false;
    proc_maps_begin(&reader, getpid(), maps);
    while (!found && proc_maps_next(&reader, line))
        found = line->mapping.start == (uintptr_t)start;
    proc_maps_end(&reader);
    return found;
}

static void *map_page(int protection) {
    void *page = mmap(NULL, PAGE, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

TEST(a_copy_has_the_same_lines_as_the_kernels_file) {
    struct proc_maps *maps = proc_maps_create(getpid());
    struct proc_maps_line line, kept;
    struct proc_maps_reader reader, copy;
    void *page = map_page(PROT_READ | PROT_EXEC);
    CHECK(find(maps, page, &kept));
    CHECK(kept.is_executable);
    proc_maps_begin(&reader, getpid(), NULL);
    proc_maps_begin(&copy, getpid(), maps);
    for (int i = 0; i < 5; i++) { /* the program's own mappings, which do not change */
        CHECK(proc_maps_next(&reader, &line));
        CHECK(proc_maps_next(&copy, &kept));
        CHECK_INT(kept.mapping.start, ==, line.mapping.start);
        CHECK_INT(kept.mapping.end, ==, line.mapping.end);
        CHECK_INT(kept.mapping.offset, ==, line.mapping.offset);
        CHECK_INT(kept.mapping.inode, ==, line.mapping.inode);
        CHECK_INT(kept.mapping.device_minor, ==, line.mapping.device_minor);
        CHECK_STR(kept.mapping.path, line.mapping.path);
    }
    proc_maps_end(&reader);
    proc_maps_end(&copy);
    munmap(page, PAGE);
    proc_maps_release(maps);
}

/* Shared anonymous memory is a deleted file of the kernel's own. */
TEST(a_deleted_file_has_its_path_without_the_kernels_remark) {
    struct proc_maps *maps = proc_maps_create(getpid());
    struct proc_maps_line line = {0};
    void *page = map_page(PROT_READ | PROT_EXEC);
    CHECK(find(NULL, page, &line) && line.mapping.is_deleted);
    CHECK_STR(line.mapping.path, "/dev/zero");
    CHECK(find(maps, page, &line) && line.mapping.is_deleted);
    CHECK_STR(line.mapping.path, "/dev/zero");
    char text[] = "1000-2000 r-xp 0 08:01 5 /usr/bin/my (deleted) prog\n";
    CHECK(proc_maps_parse(text, &line) && !line.mapping.is_deleted);
    CHECK_STR(line.mapping.path, "/usr/bin/my (deleted) prog");
    munmap(page, PAGE);
    proc_maps_release(maps);
}

TEST(a_copy_is_read_once_and_does_not_change) {
    struct proc_maps *maps = proc_maps_create(getpid());
    struct proc_maps_line line;
    CHECK_INT(proc_maps_reads(maps), ==, 0);
    void *first = map_page(PROT_READ);
    CHECK(find(maps, first, &line));
    void *second = map_page(PROT_READ);
    for (int i = 0; i < 100; i++)
        CHECK(!find(maps, second, &line));
    CHECK(find(NULL, second, &line));
    CHECK_INT(proc_maps_reads(maps), ==, 1);
    munmap(first, PAGE);
    munmap(second, PAGE);
    proc_maps_release(maps);
}

/* 5,000 mappings that do not exist, of a file that does. */
TEST(mappings_that_are_only_claimed_share_one_reading_of_the_maps) {
    struct proc_maps *maps = proc_maps_create(getpid());
    for (uint64_t i = 0; i < 5000; i++) {
        struct symbol_mapping claimed = {.start = 0x10000000000ull + 2 * PAGE * i,
                                         .end = 0x10000000000ull + 2 * PAGE * i + PAGE,
                                         .inode = 1,
                                         .path = "/bin/sh",
                                         .maps = maps};
        enum symbol_reason reason;
        CHECK_INT(symbol_locate_file(getpid(), &claimed, &reason), ==, -1);
    }
    CHECK_INT(proc_maps_reads(maps), ==, 1);
    proc_maps_release(maps);
}

TEST(the_maps_of_a_process_that_is_gone_are_empty) {
    struct proc_maps *maps = proc_maps_create(-1);
    struct proc_maps_line line;
    CHECK(!find(maps, NULL, &line));
    CHECK_INT(proc_maps_reads(maps), ==, 1);
    proc_maps_release(proc_maps_retain(maps));
    proc_maps_release(maps);
    proc_maps_release(NULL);
}

static uint32_t count_lines(struct proc_maps *maps) {
    struct proc_maps_reader reader;
    struct proc_maps_line line;
    uint32_t count = 0;
    proc_maps_begin(&reader, getpid(), maps);
    while (proc_maps_next(&reader, &line))
        count++;
    proc_maps_end(&reader);
    return count;
}

/* Opens a directory below `dir` whose path is almost as long as a path can be. */
static int open_deep(const char *dir) {
    char name[251] = {0};
    memset(name, 'd', sizeof name - 1);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 15; i++) {
        CHECK_INT(mkdirat(fd, name, 0700), ==, 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    CHECK(fd >= 0);
    return fd;
}

/* Mappings of two files in turn, so that no two neighbours have the same path. */
TEST(a_copy_ends_where_its_paths_would_take_too_much_memory) {
    char dir[] = "/tmp/maps.XXXXXX", command[64];
    CHECK(mkdtemp(dir) != NULL);
    int deep = open_deep(dir), files[2];
    for (int i = 0; i < 2; i++) {
        files[i] = openat(deep, i ? "one" : "two", O_RDWR | O_CREAT, 0600);
        CHECK_INT(ftruncate(files[i], PAGE), ==, 0);
    }
    for (int i = 0; i < 1500; i++)
        CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, files[i % 2], 0) != MAP_FAILED);
    struct proc_maps *maps = proc_maps_create(getpid());
    uint32_t all = count_lines(NULL), kept = count_lines(maps);
    CHECK_INT(all, >, 1500);
    CHECK_INT(kept, <, all);
    CHECK_INT(kept, >, 1000);
    proc_maps_release(maps);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_INT(system(command), ==, 0);
}
