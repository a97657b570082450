/* SPDX-License-Identifier: Apache-2.0
 *
 * The line information of one unit, versions 2 to 5: its files, and its line program, which yields
 * a file and a line for each run of code. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_LINES_H
#define SONDE_SERVICE_SYMBOL_DWARF_LINES_H

#include "service/symbol/dwarf/ranges.h"
#include "service/symbol/lines/line_table_build.h"

#define DWARF_NO_FILE UINT32_MAX

struct dwarf_source {
    const char *name; /* borrowed from the sections */
    uint64_t directory;
    uint32_t file; /* the builder's number; DWARF_NO_FILE = not added yet */
};

/* Zeroed memory is a table without files. It is reused from unit to unit. */
struct dwarf_lines {
    const struct dwarf_unit *unit;
    const char *compiled_in; /* "" = unknown */
    const char **directories;
    struct dwarf_source *sources;
    uint64_t directory_count, directory_capacity, source_count, source_capacity;
    struct cursor program;
    struct dwarf_shape shape; /* of the table, which can differ from the unit's */
    uint8_t instruction_size, most_ops, line_range, opcode_base;
    int8_t line_base;
    uint8_t opcode_lengths[256];
};

/* Reads the header of the unit's table. False if there is none, or it is damaged. */
bool dwarf_lines_open(struct dwarf_lines *lines, const struct dwarf_unit *unit);
/* Runs the program and adds its rows to the builder. Rows outside the unit's own `ranges` (sorted)
 * are dropped: they belong to discarded code, whose sequences begin at address 0. If there are no
 * ranges, rows from `base` on count. */
void dwarf_lines_run(struct dwarf_lines *lines, const struct dwarf_ranges *ranges, uint64_t base,
                     struct line_table_builder *builder);
/* The builder's number of the file with that index in DWARF. */
uint32_t dwarf_lines_file(struct dwarf_lines *lines, uint64_t index,
                          struct line_table_builder *builder);
void dwarf_lines_finish(struct dwarf_lines *lines);

/* For lines.c: reads the tables of directories and files. */
bool dwarf_lines_read_files(struct dwarf_lines *lines, struct cursor *cursor);

#endif
