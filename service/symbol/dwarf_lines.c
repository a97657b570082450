/* SPDX-License-Identifier: Apache-2.0
 *
 * Line rows become runs: from a row to the next one of its sequence. A run counts only within the
 * unit's own ranges, which drops the sequences of discarded code that begin at address 0 and would
 * reach into the first functions of the file. */
#include "service/symbol/dwarf_walk.h"

static void add_run(struct walk *walk, size_t *range, uint64_t start, uint64_t end, uint32_t file,
                    uint32_t line) {
    if (walk->range_count == 0) { /* a unit that does not say where its code is */
        symbol_full_add_row(walk->builder, start, end, file, line);
        return;
    }
    while (*range > 0 && walk->ranges[*range].start > start)
        --*range;
    while (*range + 1 < walk->range_count && walk->ranges[*range].end <= start)
        ++*range;
    for (size_t i = *range; i < walk->range_count && walk->ranges[i].start < end; i++) {
        uint64_t from = walk->ranges[i].start > start ? walk->ranges[i].start : start;
        uint64_t to = walk->ranges[i].end < end ? walk->ranges[i].end : end;
        if (from < to)
            symbol_full_add_row(walk->builder, from, to, file, line);
    }
}

/* File and line of a row; false when it cannot be read. */
static bool read_row(struct walk *walk, Dwarf_Line *row, uint32_t *file, uint32_t *line) {
    Dwarf_Files *files;
    size_t index;
    int number;
    if (dwarf_line_file(row, &files, &index) != 0 || dwarf_lineno(row, &number) != 0)
        return false;
    *file = walk_file(walk, index);
    *line = number > 0 ? (uint32_t)number : 0;
    return true;
}

void walk_lines(struct walk *walk, Dwarf_Die *unit) {
    Dwarf_Lines *lines;
    size_t count, range = 0;
    if (dwarf_getsrclines(unit, &lines, &count) != 0)
        return;
    /* libdw sorts rows by address; the end of a sequence goes before a row of the same address. */
    for (size_t i = 0; i + 1 < count; i++) {
        Dwarf_Line *row = dwarf_onesrcline(lines, i), *next = dwarf_onesrcline(lines, i + 1);
        Dwarf_Addr start, end;
        bool ends;
        uint32_t file, line;
        if (!row || !next || dwarf_lineaddr(row, &start) != 0 || dwarf_lineaddr(next, &end) != 0 ||
            dwarf_lineendsequence(row, &ends) != 0 || ends || start >= end)
            continue;
        if (read_row(walk, row, &file, &line))
            add_run(walk, &range, start, end, file, line);
    }
}
