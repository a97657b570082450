/* SPDX-License-Identifier: Apache-2.0
 *
 * The address ranges of a DIE: from low_pc to high_pc, in .debug_ranges (DWARF 2 to 4) or in
 * .debug_rnglists (5). Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_RANGES_H
#define SONDE_SERVICE_SYMBOL_DWARF_RANGES_H

#include "service/symbol/dwarf/unit.h"

struct dwarf_range {
    uint64_t start, end;
};

struct dwarf_ranges {
    struct dwarf_range *items;
    size_t count, capacity;
};

/* Appends the DIE's ranges in the order of the file, without empty ones. Of a damaged list, the
 * ranges before the damage count. */
void dwarf_ranges_add(struct dwarf_ranges *ranges, const struct dwarf_unit *unit,
                      const struct dwarf_die *die);
/* Sorts the ranges and joins those that touch or overlap. */
void dwarf_ranges_merge(struct dwarf_ranges *ranges);
void dwarf_ranges_finish(struct dwarf_ranges *ranges);

#endif
