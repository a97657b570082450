/* SPDX-License-Identifier: Apache-2.0
 *
 * The line table of one unit, versions 2 to 5: its files by number, and its program, which gives
 * runs of code with one file and line each. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_LINES_H
#define SONDE_SERVICE_SYMBOL_DWARF_LINES_H

#include "service/symbol/dwarf/ranges.h"
#include "service/symbol/lines/line_table_build.h"

#define DWARF_NO_FILE UINT32_MAX

struct dwarf_source {
    const char *name; /* borrowed from the sections */
    uint64_t directory;
    uint32_t file; /* the builder's number, DWARF_NO_FILE = not asked yet */
};

/* Zeroed memory is a table without files. Kept from unit to unit for its memory. */
struct dwarf_lines {
    const struct dwarf_unit *unit;
    const char *compiled_in; /* "" = unknown */
    const char **directories;
    struct dwarf_source *sources;
    uint64_t directory_count, directory_capacity, source_count, source_capacity;
    struct cursor program;
    struct dwarf_shape shape; /* of the table, which may be another than the unit's */
    uint8_t instruction_size, most_ops, line_range, opcode_base;
    int8_t line_base;
    uint8_t opcode_lengths[256];
};

/* Reads the header of the unit's table; false when it has none that can be read. */
bool dwarf_lines_open(struct dwarf_lines *lines, const struct dwarf_unit *unit);
/* Runs the program. Runs count only within `ranges` (sorted), the unit's own, which drops sequences
 * of discarded code that begin at address 0; none = everything from `base` on counts. */
void dwarf_lines_run(struct dwarf_lines *lines, const struct dwarf_ranges *ranges, uint64_t base,
                     struct line_table_builder *builder);
/* The builder's number of the file that DWARF calls by that index. */
uint32_t dwarf_lines_file(struct dwarf_lines *lines, uint64_t index,
                          struct line_table_builder *builder);
void dwarf_lines_finish(struct dwarf_lines *lines);

/* For lines.c: the tables of directories and files behind the fixed part of the header. */
bool dwarf_lines_read_files(struct dwarf_lines *lines, struct cursor *cursor);

#endif
