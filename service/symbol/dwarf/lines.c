/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs line programs. A row applies up to the next row of its sequence with a higher address; of
 * several rows at one address, the last one counts. */
#include "service/symbol/dwarf/lines.h"

#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>

/* --- header ----------------------------------------------------------------------------------- */

static bool read_header(struct dwarf_lines *lines, struct cursor *cursor) {
    lines->instruction_size = cursor_u8(cursor);
    lines->most_ops = lines->shape.version >= 4 ? cursor_u8(cursor) : 1;
    cursor_u8(cursor); /* default_is_stmt */
    lines->line_base = (int8_t)cursor_u8(cursor);
    lines->line_range = cursor_u8(cursor);
    lines->opcode_base = cursor_u8(cursor);
    for (int i = 1; i < lines->opcode_base; i++)
        lines->opcode_lengths[i] = cursor_u8(cursor);
    if (lines->most_ops == 0)
        lines->most_ops = 1;
    return !cursor->failed && lines->line_range != 0 && lines->opcode_base != 0;
}

bool dwarf_lines_open(struct dwarf_lines *lines, const struct dwarf_unit *unit) {
    const struct dwarf_die *root = &unit->root;
    lines->directory_count = lines->source_count = 0;
    lines->program = (struct cursor){0};
    lines->unit = unit;
    const char *compiled_in = dwarf_die_string(unit, root, SLOT_COMP_DIR);
    lines->compiled_in = compiled_in ? compiled_in : "";
    if (!dwarf_die_has(root, SLOT_STMT_LIST))
        return false;
    struct cursor cursor = cursor_at(unit->file->of[DWARF_LINE],
                                     root->values[SLOT_STMT_LIST].number, *unit->file->fuel);
    lines->shape = unit->shape;
    uint64_t len = cursor_length(&cursor, &lines->shape.offset_size);
    if (cursor.failed || len > cursor_left(&cursor) || !dwarf_fuel_take(unit->file->fuel, len))
        return false;
    cursor.end = cursor.at + len;
    uint64_t version = cursor_uint(&cursor, 2);
    lines->shape.version = version >= 2 && version <= 5 ? (uint8_t)version : 0;
    if (version == 5) {
        lines->shape.address_size = cursor_u8(&cursor);
        cursor_u8(&cursor); /* size of segment selectors */
    }
    uint64_t header = cursor_uint(&cursor, lines->shape.offset_size);
    if (cursor.failed || lines->shape.version == 0 || header > cursor_left(&cursor))
        return false;
    lines->program = (struct cursor){cursor.at + header, cursor.end, false};
    cursor.end = cursor.at + header;
    bool good = read_header(lines, &cursor) && dwarf_lines_read_files(lines, &cursor);
    if (!good)
        lines->program = (struct cursor){0};
    return good;
}

void dwarf_lines_finish(struct dwarf_lines *lines) {
    free(lines->directories);
    free(lines->sources);
    *lines = (struct dwarf_lines){0};
}

/* --- rows ------------------------------------------------------------------------------------- */

struct machine {
    struct dwarf_lines *lines;
    const struct dwarf_ranges *ranges;
    struct line_table_builder *builder;
    uint64_t base;
    size_t range;            /* the one used last */
    uint64_t address, file;  /* registers of the line program */
    uint32_t op_index, line; /* line may wrap around */
    bool has_row;            /* there is a pending row: */
    uint64_t run_address, run_file;
    uint32_t run_line;
};

/* The first range that ends after the address. Tries the one used last first. */
static size_t find_range(const struct machine *machine, uint64_t address) {
    const struct dwarf_range *ranges = machine->ranges->items;
    size_t low = 0, high = machine->ranges->count, at = machine->range;
    if (at < high && ranges[at].end > address && (at == 0 || ranges[at - 1].end <= address))
        return at;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void clip(struct machine *machine, uint64_t start, uint64_t end, uint32_t file) {
    const struct dwarf_range *ranges = machine->ranges->items;
    size_t at = machine->range = find_range(machine, start);
    uint64_t *fuel = machine->lines->unit->file->fuel;
    for (; at < machine->ranges->count && ranges[at].start < end && dwarf_fuel_take(fuel, 1);
         at++) {
        uint64_t from = ranges[at].start > start ? ranges[at].start : start;
        uint64_t to = ranges[at].end < end ? ranges[at].end : end;
        line_table_add_row(machine->builder, from, to, file, machine->run_line);
    }
}

/* Adds the pending row, which ends at the current address. */
static void end_run(struct machine *machine) {
    if (!machine->has_row || machine->run_address >= machine->address ||
        machine->run_address < machine->base)
        return;
    uint32_t file = dwarf_lines_file(machine->lines, machine->run_file, machine->builder);
    uint32_t line = (int32_t)machine->run_line > 0 ? machine->run_line : 0;
    machine->run_line = line;
    if (machine->ranges->count == 0)
        line_table_add_row(machine->builder, machine->run_address, machine->address, file, line);
    else
        clip(machine, machine->run_address, machine->address, file);
}

static inline void add_row(struct machine *machine) {
    if (machine->has_row && machine->run_file == machine->file &&
        machine->run_line == machine->line && machine->run_address <= machine->address)
        return; /* the pending row continues */
    end_run(machine);
    machine->has_row = true;
    machine->run_address = machine->address;
    machine->run_file = machine->file;
    machine->run_line = machine->line;
}

static void begin_sequence(struct machine *machine) {
    machine->address = 0;
    machine->op_index = 0;
    machine->file = 1;
    machine->line = 1;
    machine->has_row = false;
}

/* --- the program ------------------------------------------------------------------------------ */

static inline void advance(struct machine *machine, uint64_t by) {
    const struct dwarf_lines *lines = machine->lines;
    if (lines->most_ops == 1) {
        machine->address += by * lines->instruction_size;
        return;
    }
    uint64_t ops = machine->op_index + by;
    machine->address += ops / lines->most_ops * lines->instruction_size;
    machine->op_index = (uint32_t)(ops % lines->most_ops);
}

static void run_extended(struct machine *machine, struct cursor *cursor) {
    uint64_t len = cursor_uleb(cursor);
    if (len == 0 || len > cursor_left(cursor)) {
        cursor_fail(cursor);
        return;
    }
    struct cursor inner = {cursor->at, cursor->at + len, false};
    cursor->at += len;
    switch (cursor_u8(&inner)) {
    case LNE_end_sequence:
        end_run(machine);
        begin_sequence(machine);
        break;
    case LNE_set_address:
        machine->address = cursor_uint(&inner, (unsigned)(len - 1));
        machine->op_index = 0;
        break;
    default: /* DW_LNE_define_file, discriminators, vendor extensions */
        break;
    }
}

static void run_standard(struct machine *machine, struct cursor *cursor, uint8_t opcode) {
    const struct dwarf_lines *lines = machine->lines;
    switch (opcode) {
    case LNS_copy:
        add_row(machine);
        break;
    case LNS_advance_pc:
        advance(machine, cursor_uleb(cursor));
        break;
    case LNS_advance_line:
        machine->line += (uint32_t)cursor_sleb(cursor);
        break;
    case LNS_set_file:
        machine->file = cursor_uleb(cursor);
        break;
    case LNS_const_add_pc:
        advance(machine, (255u - lines->opcode_base) / lines->line_range);
        break;
    case LNS_fixed_advance_pc:
        machine->address += cursor_uint(cursor, 2);
        machine->op_index = 0;
        break;
    default:
        for (uint8_t i = 0; i < lines->opcode_lengths[opcode]; i++)
            cursor_uleb(cursor);
        break;
    }
}

void dwarf_lines_run(struct dwarf_lines *lines, const struct dwarf_ranges *ranges, uint64_t base,
                     struct line_table_builder *builder) {
    struct machine machine = {.lines = lines, .ranges = ranges, .builder = builder, .base = base};
    struct cursor cursor = lines->program;
    begin_sequence(&machine);
    while (cursor.at < cursor.end) {
        uint8_t opcode = *cursor.at++;
        if (opcode >= lines->opcode_base) {
            uint8_t special = opcode - lines->opcode_base;
            advance(&machine, special / lines->line_range);
            machine.line += (uint32_t)(lines->line_base + special % lines->line_range);
            add_row(&machine);
        } else if (opcode == 0) {
            run_extended(&machine, &cursor);
        } else {
            run_standard(&machine, &cursor, opcode);
        }
    }
}
