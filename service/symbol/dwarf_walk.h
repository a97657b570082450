/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the walk share: dwarf.c (units), dwarf_functions.c, dwarf_lines.c,
 * dwarf_names.c. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_WALK_H
#define SONDE_SERVICE_SYMBOL_DWARF_WALK_H

#include "service/symbol/full_build.h"
#include "service/symbol/intern.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#define WALK_NO_FILE UINT32_MAX

/* DIE → number, by the DIE's place in memory; valid while the Dwarf is open. */
struct walk_map_item {
    const void *die;
    uint32_t value;
};

struct walk_map {
    struct symbol_intern set;
    struct walk_map_item *items;
    uint32_t count, capacity;
};

bool walk_map_find(const struct walk_map *map, const void *die, uint32_t *value);
void walk_map_add(struct walk_map *map, const void *die, uint32_t value);
void walk_map_finish(struct walk_map *map);

struct walk_range {
    uint64_t start, end;
};

struct walk {
    struct symbol_full_builder *builder;
    uint64_t base;

    /* Until the Dwarf is opened again. */
    struct walk_map names;  /* origin DIE → function */
    struct walk_map scopes; /* DIE without a linkage name → offset into scope_text */
    struct sonde_buf scope_text;

    /* Of the unit at hand. */
    Dwarf_Files *files;
    size_t file_count;
    uint32_t *file_ids; /* WALK_NO_FILE = not asked yet */
    bool is_cpp;
    const char *directory;     /* of the compilation, "" = unknown */
    struct walk_range *ranges; /* sorted */
    size_t range_count, range_capacity;
    Dwarf_Die *nested; /* functions met inside functions, to be walked by themselves */
    size_t nested_count, nested_capacity;
};

void walk_functions(struct walk *walk, Dwarf_Die *unit);
/* `unit` is the one with the line table: the skeleton of a split unit. */
void walk_lines(struct walk *walk, Dwarf_Die *unit);
/* Remembers the scopes of functions that have no linkage name. */
void walk_scopes(struct walk *walk, Dwarf_Die *unit);
/* The function a DIE stands for. */
uint32_t walk_name(struct walk *walk, Dwarf_Die *die);
/* The builder's number of the unit's file with that index. */
uint32_t walk_file(struct walk *walk, size_t index);

#endif
