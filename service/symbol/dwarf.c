/* SPDX-License-Identifier: Apache-2.0
 *
 * Units in turn. libdw keeps what it has parsed of every unit until the end, so it is closed and
 * opened again after some megabytes: that bounds the memory whatever the size of the file. */
#include "service/symbol/dwarf.h"

#include "service/symbol/dwarf_walk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES (8u << 20)

/* --- maps --------------------------------------------------------------------------------------
 */

static bool equal_die(const void *context, uint32_t index, const void *item) {
    return ((const struct walk_map *)context)->items[index].die == item;
}

static uint64_t hash_die(const void *die) {
    return (uint64_t)(uintptr_t)die * 0x9e3779b97f4a7c15ull;
}

bool walk_map_find(const struct walk_map *map, const void *die, uint32_t *value) {
    uint32_t found = symbol_intern_find(&map->set, hash_die(die), equal_die, map, die);
    if (found == SYMBOL_INTERN_FREE)
        return false;
    *value = map->items[found].value;
    return true;
}

void walk_map_add(struct walk_map *map, const void *die, uint32_t value) {
    if (map->count == map->capacity) {
        uint32_t capacity = map->capacity ? 2 * map->capacity : 1024;
        struct walk_map_item *items = realloc(map->items, capacity * sizeof *items);
        if (!items)
            return;
        map->items = items;
        map->capacity = capacity;
    }
    uint32_t *place = symbol_intern_place(&map->set, hash_die(die), equal_die, map, die);
    if (!place || *place != SYMBOL_INTERN_FREE)
        return;
    *place = map->count;
    map->items[map->count++] = (struct walk_map_item){die, value};
}

void walk_map_finish(struct walk_map *map) {
    symbol_intern_finish(&map->set);
    free(map->items);
    *map = (struct walk_map){0};
}

/* --- units -------------------------------------------------------------------------------------
 */

static bool is_cpp(Dwarf_Die *unit) {
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case DW_LANG_ObjC_plus_plus:
        return true;
    default:
        return dwarf_srclang(unit) == 0x2b || dwarf_srclang(unit) == 0x3a; /* C++17, C++20 */
    }
}

static int compare_walk_ranges(const void *left, const void *right) {
    const struct walk_range *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

static void read_ranges(struct walk *walk, Dwarf_Die *unit) {
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    walk->range_count = 0;
    while ((at = dwarf_ranges(unit, at, &base, &start, &end)) > 0) {
        if (walk->range_count == walk->range_capacity) {
            size_t capacity = walk->range_capacity ? 2 * walk->range_capacity : 64;
            void *wider = realloc(walk->ranges, capacity * sizeof *walk->ranges);
            if (!wider)
                break;
            walk->ranges = wider;
            walk->range_capacity = capacity;
        }
        if (start >= walk->base && start < end)
            walk->ranges[walk->range_count++] = (struct walk_range){start, end};
    }
    if (walk->range_count > 1)
        qsort(walk->ranges, walk->range_count, sizeof *walk->ranges, compare_walk_ranges);
}

static void begin_unit(struct walk *walk, Dwarf_Die *unit, Dwarf_Die *skeleton) {
    walk->files = NULL;
    walk->file_count = 0;
    if (dwarf_getsrcfiles(skeleton, &walk->files, &walk->file_count) != 0 &&
        dwarf_getsrcfiles(unit, &walk->files, &walk->file_count) != 0)
        walk->file_count = 0;
    free(walk->file_ids);
    walk->file_ids = malloc((walk->file_count + 1) * sizeof *walk->file_ids);
    if (walk->file_ids)
        memset(walk->file_ids, 0xff, (walk->file_count + 1) * sizeof *walk->file_ids);
    else
        walk->file_count = 0;
    walk->is_cpp = is_cpp(unit);
    Dwarf_Attribute attribute;
    walk->directory =
        dwarf_attr(skeleton, DW_AT_comp_dir, &attribute) ? dwarf_formstring(&attribute) : NULL;
    if (!walk->directory)
        walk->directory = "";
}

/* Relative names are relative to where the compiler ran; libdw forgets that for DWARF 5. */
static uint32_t add_path(struct walk *walk, const char *path) {
    char whole[PATH_MAX];
    if (path[0] == 0 || path[0] == '/' || walk->directory[0] == 0)
        return symbol_full_add_file(walk->builder, path);
    snprintf(whole, sizeof whole, "%s/%s", walk->directory, path);
    return symbol_full_add_file(walk->builder, whole);
}

uint32_t walk_file(struct walk *walk, size_t index) {
    if (index >= walk->file_count)
        return symbol_full_add_file(walk->builder, "");
    if (walk->file_ids[index] == WALK_NO_FILE) {
        const char *path = dwarf_filesrc(walk->files, index, NULL, NULL);
        bool known = path && strcmp(path, "???") != 0;
        walk->file_ids[index] = add_path(walk, known ? path : "");
    }
    return walk->file_ids[index];
}

/* False when the unit could not be read. */
static bool walk_unit(struct walk *walk, Dwarf_Die *skeleton) {
    Dwarf_Die split;
    uint8_t type = DW_UT_compile;
    if (dwarf_cu_info(skeleton->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) != 0)
        return false;
    if (type == DW_UT_type || type == DW_UT_split_type ||
        dwarf_tag(skeleton) == DW_TAG_partial_unit)
        return true;
    bool is_split = type == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid;
    Dwarf_Die *unit = is_split ? &split : skeleton;
    begin_unit(walk, unit, skeleton);
    read_ranges(walk, skeleton);
    walk_lines(walk, skeleton);
    if (walk->is_cpp)
        walk_scopes(walk, unit);
    walk_functions(walk, unit);
    return type != DW_UT_skeleton || is_split;
}

/* --- batches -----------------------------------------------------------------------------------
 */

struct opened {
    Elf *elf, *alt_elf;
    Dwarf *dwarf, *alt;
};

static bool open_dwarf(const struct symbol_dwarf_input *input, struct opened *opened) {
    *opened = (struct opened){.elf = elf_begin(input->fd, ELF_C_READ_MMAP, NULL)};
    opened->dwarf = opened->elf ? dwarf_begin_elf(opened->elf, DWARF_C_READ, NULL) : NULL;
    if (!opened->dwarf)
        return false;
    if (input->alt_fd >= 0) {
        opened->alt_elf = elf_begin(input->alt_fd, ELF_C_READ_MMAP, NULL);
        opened->alt = opened->alt_elf ? dwarf_begin_elf(opened->alt_elf, DWARF_C_READ, NULL) : NULL;
        if (opened->alt)
            dwarf_setalt(opened->dwarf, opened->alt);
    }
    return true;
}

static void close_dwarf(struct opened *opened) {
    if (opened->dwarf)
        dwarf_end(opened->dwarf);
    if (opened->alt)
        dwarf_end(opened->alt);
    if (opened->elf)
        elf_end(opened->elf);
    if (opened->alt_elf)
        elf_end(opened->alt_elf);
}

static void forget_batch(struct walk *walk) {
    walk_map_finish(&walk->names);
    walk_map_finish(&walk->scopes);
    sonde_buf_finish(&walk->scope_text);
}

/* Walks units from *offset on until a batch is full; false when there are no more. */
static bool walk_batch(struct walk *walk, Dwarf *dwarf, Dwarf_Off *offset,
                       struct symbol_dwarf_result *result) {
    Dwarf_Off first = *offset, next;
    size_t header;
    while (*offset - first < BATCH_BYTES) {
        if (dwarf_next_unit(dwarf, *offset, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL) !=
            0)
            return false;
        Dwarf_Die unit;
        bool good = dwarf_offdie(dwarf, *offset + header, &unit) && walk_unit(walk, &unit);
        result->units++;
        result->broken_units += !good;
        if (next <= *offset)
            return false;
        *offset = next;
    }
    return true;
}

sonde_err symbol_dwarf_walk(const struct symbol_dwarf_input *input,
                            struct symbol_full_builder *builder,
                            struct symbol_dwarf_result *result) {
    struct walk walk = {.builder = builder, .base = input->base};
    Dwarf_Off offset = 0;
    sonde_err err = SONDE_OK;
    bool more = true;
    *result = (struct symbol_dwarf_result){0};
    elf_version(EV_CURRENT);
    while (more && err == SONDE_OK) {
        struct opened opened;
        if (!open_dwarf(input, &opened))
            err = SONDE_CORRUPT;
        else
            more = walk_batch(&walk, opened.dwarf, &offset, result);
        forget_batch(&walk);
        close_dwarf(&opened);
    }
    free(walk.file_ids);
    free(walk.ranges);
    free(walk.nested);
    if (err == SONDE_OK && result->units == 0)
        return SONDE_NOT_FOUND;
    return err;
}
