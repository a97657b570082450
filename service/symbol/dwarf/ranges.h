/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the code of a DIE is: low to high, .debug_ranges (DWARF 2 to 4) or .debug_rnglists (5).
 * Thread safety: one thread. */
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

/* Appends the DIE's ranges that are not empty, in the order of the file. A broken list gives what
 * came before the damage. */
void dwarf_ranges_add(struct dwarf_ranges *ranges, const struct dwarf_unit *unit,
                      const struct dwarf_die *die);
/* Sorts them and makes one of those that touch. */
void dwarf_ranges_merge(struct dwarf_ranges *ranges);
void dwarf_ranges_finish(struct dwarf_ranges *ranges);

#endif
