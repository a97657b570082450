/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over all DWARF of a file, versions 2 to 5: functions, inlined calls, lines, from the first
 * byte to the last, unit by unit.
 *
 * Our own reader: libdw takes a lock for every attribute and keeps what it parsed, which made it
 * the larger part of a conversion's time. This one reads each byte of .debug_info once and keeps
 * only the unit at hand. Also read: split DWARF (.dwo files, .dwp packages), what dwz moved into a
 * shared file, partial units; type units hold no code and are stepped over.
 *
 * The bytes are hostile: every read is bounded, nothing recurses, and work beyond some dozens of
 * times the size of the file ends the walk. Thread safety: one thread per walk. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_DWARF_H
#define SONDE_SERVICE_SYMBOL_DWARF_DWARF_H

#include "service/symbol/dwarf/sections.h"
#include "service/symbol/lines/line_table_build.h"

struct dwarf_input {
    const struct dwarf_sections *main;
    const struct dwarf_sections *alt;     /* what dwz moved elsewhere; NULL = none */
    const struct dwarf_sections *package; /* of split units (.dwp); NULL = none */
    uint64_t base;                        /* code below it was discarded */
    bool may_open;                        /* .dwo files, by the names that the file says */
};

/* How it went: units walked, and those of which something had to be left out. */
struct dwarf_result {
    uint32_t units, broken_units;
};

/* SONDE_NOT_FOUND when there is no unit, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err dwarf_walk_all(const struct dwarf_input *input,
                                        struct line_table_builder *builder,
                                        struct dwarf_result *result);

#endif
