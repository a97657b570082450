/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads all functions, inlined calls and lines from a file's DWARF, versions 2 to 5, one unit after
 * the other.
 *
 * libdw is not used, because it takes a lock for every attribute and keeps all that it has parsed,
 * which took most of the time of building a line table. This reader reads each byte of .debug_info
 * once and keeps only the current unit. It supports split DWARF (.dwo files and .dwp packages),
 * files that dwz moved shared DWARF to, and partial units. Type units have no code and are skipped.
 *
 * The bytes are untrusted: every read is bounded, nothing recurses, and the walk ends when its work
 * exceeds a small multiple of the file's size. Thread safety: one thread per walk. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_DWARF_H
#define SONDE_SERVICE_SYMBOL_DWARF_DWARF_H

#include "service/symbol/dwarf/sections.h"
#include "service/symbol/lines/line_table_build.h"

struct dwarf_input {
    const struct dwarf_sections *main;
    const struct dwarf_sections *alt;     /* the file that dwz moved shared DWARF to; NULL = none */
    const struct dwarf_sections *package; /* split units (.dwp); NULL = none */
    uint64_t base;                        /* code below this address was discarded by the linker */
    bool may_open;                        /* open .dwo files by the names in the file */
};

/* The number of units, and of those that could not be read completely. */
struct dwarf_result {
    uint32_t units, broken_units;
};

/* SONDE_NOT_FOUND if there are no units, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err dwarf_walk_all(const struct dwarf_input *input,
                                        struct line_table_builder *builder,
                                        struct dwarf_result *result);

#endif
