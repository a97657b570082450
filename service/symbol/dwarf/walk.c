/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the units one after the other. Every few megabytes, the pages of the file are returned to
 * the kernel, so that memory does not grow with the file. */
#include "service/symbol/dwarf/walk.h"

#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>

#define FUEL_PER_BYTE 64u
#define SPARE_FUEL    ((uint64_t)1 << 20)
#define DROP_BYTES    ((uint64_t)16 << 20)

static bool is_skeleton(const struct dwarf_unit *unit) {
    return unit->type == UT_skeleton || dwarf_die_has(&unit->root, SLOT_DWO_NAME);
}

static bool walk_open_unit(struct dwarf_walk *walk, struct dwarf_unit *unit) {
    walk->entries.count = 0;
    walk->ranges.count = 0;
    walk->unit_ranges.count = 0;
    if (unit->shape.version > 2) /* in version 2, a unit's low and high pc can miss code */
        dwarf_ranges_add(&walk->unit_ranges, unit, &unit->root);
    dwarf_ranges_merge(&walk->unit_ranges);
    if (dwarf_lines_open(&walk->lines, unit))
        dwarf_lines_run(&walk->lines, &walk->unit_ranges, walk->base, walk->builder);
    if (is_skeleton(unit))
        return dwarf_split_walk(walk, unit);
    bool whole = dwarf_dies_read(unit, walk);
    dwarf_entries_emit(walk, unit);
    return whole;
}

/* False if some of it could not be read. */
static bool walk_unit(struct dwarf_walk *walk, struct dwarf_unit *unit,
                      struct dwarf_scopes *scopes) {
    if (unit->type == UT_type || unit->type == UT_split_type || unit->type == UT_partial)
        return true;
    if (!dwarf_unit_open(unit, NULL))
        return false;
    uint16_t tag = unit->root.abbrev->tag;
    if (tag == TAG_partial_unit || tag == TAG_type_unit)
        return true;
    unit->scopes = *scopes; /* reuses the memory */
    bool whole = walk_open_unit(walk, unit);
    *scopes = unit->scopes;
    dwarf_scopes_clear(scopes);
    return whole;
}

static void walk_units(struct dwarf_walk *walk, const struct dwarf_input *input,
                       struct dwarf_result *result) {
    struct dwarf_scopes scopes = {0};
    struct dwarf_unit unit;
    uint64_t dropped = 0;
    for (uint64_t at = 0; dwarf_unit_header(&walk->main, at, &unit); at = unit.end) {
        result->units++;
        result->broken_units += !walk_unit(walk, &unit, &scopes);
        dwarf_file_trim(&walk->main);
        dwarf_file_trim(&walk->alt);
        if (unit.end - dropped < DROP_BYTES)
            continue;
        dropped = unit.end;
        line_table_drop_pages(walk->builder);
        dwarf_sections_drop_pages(input->main);
        if (input->alt)
            dwarf_sections_drop_pages(input->alt);
    }
    result->broken_units += walk->fuel == 0;
    dwarf_scopes_finish(&scopes);
}

static uint64_t size_of(const struct dwarf_sections *sections) {
    uint64_t size = 0;
    for (int i = 0; sections && i < DWARF_SECTION_COUNT; i++)
        size += sections->of[i].len;
    return size;
}

sonde_err dwarf_walk_all(const struct dwarf_input *input, struct line_table_builder *builder,
                         struct dwarf_result *result) {
    static const struct dwarf_sections none;
    struct dwarf_walk *walk = calloc(1, sizeof *walk);
    *result = (struct dwarf_result){0};
    if (!walk)
        return SONDE_OUT_OF_MEMORY;
    walk->builder = builder;
    walk->base = input->base;
    walk->package = input->package;
    walk->may_open = input->may_open;
    walk->fuel =
        SPARE_FUEL +
        (size_of(input->main) + size_of(input->alt) + size_of(input->package)) * FUEL_PER_BYTE;
    dwarf_memo_init(&walk->memo);
    dwarf_file_init(&walk->main, input->main, &walk->fuel);
    dwarf_file_init(&walk->alt, input->alt ? input->alt : &none, &walk->fuel);
    walk->main.alt = input->alt ? &walk->alt : NULL;
    walk_units(walk, input, result);
    dwarf_file_finish(&walk->main);
    dwarf_file_finish(&walk->alt);
    dwarf_lines_finish(&walk->lines);
    dwarf_ranges_finish(&walk->unit_ranges);
    dwarf_ranges_finish(&walk->ranges);
    dwarf_memo_finish(&walk->memo);
    free(walk->entries.items);
    free(walk);
    return result->units > 0 ? SONDE_OK : SONDE_NOT_FOUND;
}
