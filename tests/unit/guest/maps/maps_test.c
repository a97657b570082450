/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps.h"

#include "tests/unit/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct maps read_maps(void) {
    struct maps maps = {0};
    CHECK_INT(maps_init(&maps), ==, 0);
    CHECK_INT(maps_read(&maps), ==, 0);
    return maps;
}

static const struct maps_module *module_of(const struct maps *maps, uint64_t address) {
    for (uint32_t i = 0; i < maps->module_count; i++)
        if (address >= maps->modules[i].start && address < maps->modules[i].end)
            return &maps->modules[i];
    return NULL;
}

TEST(maps_hold_our_code_and_our_stack) {
    struct maps maps = read_maps();
    char here;
    const struct maps_module *module = module_of(&maps, (uint64_t)read_maps);
    CHECK(module && strstr(module->path, "maps_test"));
    CHECK(module->inode);
    bool found = false;
    for (uint64_t i = 0; i < maps.areas->count; i++)
        found |= (uint64_t)&here >= maps.areas->areas[i].low &&
                 (uint64_t)&here < maps.areas->areas[i].high;
    CHECK(found);
    CHECK((uint64_t)&here >= maps.main_stack.low && (uint64_t)&here < maps.main_stack.high);
    for (uint32_t i = 1; i < maps.module_count; i++)
        CHECK(maps.modules[i - 1].end <= maps.modules[i].start);
    maps_finish(&maps);
}

TEST(maps_lines_of_another_form_are_skipped) {
    struct maps maps = {0};
    CHECK_INT(maps_init(&maps), ==, 0);
    const char *const bad[] = {"",
                               "x",
                               "1000",
                               "1000-",
                               "2000-1000 r-xp 0 08:01 5 /x",
                               "1000-2000 r-x",
                               "1000-2000 r-xp zz 08:01 5 /x",
                               "1000-2000 r-xp 0 08-01 5 /x",
                               "1000-2000 r-xp 0 08:01 /x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        maps_add_line(&maps, bad[i], strlen(bad[i]));
    CHECK_INT(maps.module_count, ==, 0);
    const char *good = "1000-2000 r-xp 00000abc 08:0f 5                  /a b (deleted)";
    maps_add_line(&maps, good, strlen(good));
    CHECK_INT(maps.module_count, ==, 1);
    CHECK_STR(maps.modules[0].path, "/a b (deleted)");
    CHECK_INT(maps.modules[0].offset, ==, 0xabc);
    CHECK_INT(maps.modules[0].device_minor, ==, 15);
    maps_finish(&maps);
}

TEST(modules_beyond_the_limit_mark_the_maps_as_truncated) {
    struct maps maps = {0};
    CHECK_INT(maps_init(&maps), ==, 0);
    char line[64];
    for (unsigned i = 1; i <= MAPS_MODULES + 1; i++) {
        snprintf(line, sizeof line, "%x000-%x800 r-xp 0 08:01 5 /x", i, i);
        maps_add_line(&maps, line, strlen(line));
    }
    CHECK_INT(maps.module_count, ==, MAPS_MODULES);
    CHECK(maps.truncated);
    maps_finish(&maps);
}

static bool main_has_ended(void) {
    char byte;
    FILE *file = fopen("/proc/self/maps", "re");
    bool is_empty = !file || fread(&byte, 1, 1, file) == 0;
    if (file)
        fclose(file);
    return is_empty;
}

static void *read_after_main(void *unused) {
    struct maps maps = {0};
    while (!main_has_ended())
        usleep(1000);
    bool is_read = maps_init(&maps) == 0 && maps_read(&maps) == 0;
    _exit(is_read && module_of(&maps, (uint64_t)read_maps) ? 0 : 1);
    return unused;
}

TEST(maps_are_read_after_the_main_thread_has_ended) {
    int status;
    pthread_t thread;
    pid_t pid = fork();
    if (pid == 0 && pthread_create(&thread, NULL, read_after_main, NULL) == 0)
        syscall(SYS_exit, 0);
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
}

static struct maps_module module_at(uint64_t start, uint64_t end, uint64_t inode) {
    return (struct maps_module){.start = start, .end = end, .inode = inode};
}

TEST(h19_a_module_is_as_old_as_the_generation_that_first_had_it) {
    struct maps_module old[] = {module_at(0x1000, 0x2000, 1), module_at(0x3000, 0x4000, 0),
                                module_at(0x5000, 0x6000, 2)};
    struct maps_module new[] = {module_at(0x1000, 0x2000, 1), module_at(0x2800, 0x4800, 0),
                                module_at(0x5000, 0x6000, 3), module_at(0x7000, 0x8000, 0)};
    struct maps before = {.modules = old, .module_count = 3};
    struct maps maps = {.modules = new, .module_count = 4};
    maps_set_born(&before, &(struct maps){0}, 4);
    maps_set_born(&maps, &before, 9);
    CHECK_INT(new[0].born, ==, 4);
    CHECK_INT(new[1].born, ==, 4); /* anonymous memory that has grown */
    CHECK_INT(new[2].born, ==, 9); /* another file */
    CHECK_INT(new[3].born, ==, 9);
}
