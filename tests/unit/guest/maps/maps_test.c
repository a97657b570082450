/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

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
