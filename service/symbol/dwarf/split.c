/* SPDX-License-Identifier: Apache-2.0
 *
 * Split DWARF: the linked file has a skeleton unit with lines, addresses and an id. The functions
 * are in the package beside the file, else in the .dwo file that the skeleton names. */
#include "service/symbol/dwarf/constants.h"
#include "service/symbol/dwarf/package.h"
#include "service/symbol/dwarf/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define FUEL_PER_BYTE 16u

static sonde_err open_named(const struct dwarf_unit *skeleton, struct dwarf_sections *sections) {
    const char *name = dwarf_die_string(skeleton, &skeleton->root, SLOT_DWO_NAME);
    const char *directory = dwarf_die_string(skeleton, &skeleton->root, SLOT_COMP_DIR);
    char path[PATH_MAX];
    if (!name)
        return SONDE_NOT_FOUND;
    bool is_whole = name[0] == '/' || !directory || !directory[0];
    if (snprintf(path, sizeof path, "%s%s%s", is_whole ? "" : directory, is_whole ? "" : "/",
                 name) >= (int)sizeof path)
        return SONDE_NOT_FOUND;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    sonde_err err = dwarf_sections_open(fd, DWARF_SPLIT, -1, sections);
    if (fd >= 0)
        close(fd);
    return err;
}

/* Finds the unit with the skeleton's id. */
static bool find_unit(struct dwarf_file *file, const struct dwarf_unit *skeleton,
                      struct dwarf_unit *unit) {
    for (uint64_t at = 0; dwarf_unit_header(file, at, unit); at = unit->end) {
        if (unit->type == UT_type || unit->type == UT_split_type)
            continue;
        if (dwarf_unit_open(unit, skeleton) && unit->dwo_id == skeleton->dwo_id)
            return true;
    }
    return false;
}

static bool walk_file(struct dwarf_walk *walk, struct dwarf_file *file,
                      const struct dwarf_unit *skeleton) {
    struct dwarf_unit unit;
    for (int i = 0; i < DWARF_SECTION_COUNT; i++)
        walk->fuel += file->of[i].len * FUEL_PER_BYTE;
    dwarf_memo_forget(&walk->memo); /* its keys are offsets in another file */
    bool good = find_unit(file, skeleton, &unit);
    if (good) {
        good = dwarf_dies_read(&unit, walk);
        dwarf_entries_emit(walk, &unit);
        dwarf_scopes_finish(&unit.scopes);
    }
    dwarf_memo_forget(&walk->memo);
    return good;
}

bool dwarf_split_walk(struct dwarf_walk *walk, const struct dwarf_unit *skeleton) {
    struct dwarf_sections own = {0}, cut = {0};
    struct dwarf_file file;
    sonde_err err = SONDE_NOT_FOUND;
    if (walk->package)
        err = dwarf_package_find(walk->package, skeleton->dwo_id, &walk->fuel, cut.of);
    if (err != SONDE_OK && walk->may_open) {
        err = open_named(skeleton, &own);
        cut = own;
    }
    if (err != SONDE_OK)
        return false;
    dwarf_file_init(&file, &cut, &walk->fuel);
    bool good = walk_file(walk, &file, skeleton);
    dwarf_file_finish(&file);
    if (own.file) /* the next file can be mapped at the same addresses */
        memset(walk->places, 0, sizeof walk->places);
    dwarf_sections_finish(&own);
    return good;
}
