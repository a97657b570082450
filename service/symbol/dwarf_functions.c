/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with code, and what was inlined into them. DW_AT_ranges counts, never low to high: the
 * cold part of a function lies far from it. */
#include "service/symbol/dwarf_walk.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512

static void add_nested(struct walk *walk, const Dwarf_Die *die) {
    if (walk->nested_count == walk->nested_capacity) {
        size_t capacity = walk->nested_capacity ? 2 * walk->nested_capacity : 64;
        Dwarf_Die *wider = realloc(walk->nested, capacity * sizeof *wider);
        if (!wider)
            return;
        walk->nested = wider;
        walk->nested_capacity = capacity;
    }
    walk->nested[walk->nested_count++] = *die;
}

static uint32_t unsigned_attribute(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
        value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

static bool has_code(Dwarf_Die *die) {
    return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

static void add_ranges(struct walk *walk, Dwarf_Die *die, uint32_t node, uint32_t depth) {
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
        symbol_full_add_range(walk->builder, start, end, node, depth);
}

static void walk_inside(struct walk *walk, Dwarf_Die *parent, uint32_t node, uint32_t depth,
                        int level);

static void visit_inlined(struct walk *walk, Dwarf_Die *die, uint32_t parent, uint32_t depth,
                          int level) {
    struct symbol_node node = {
        .parent = parent,
        .function = walk_name(walk, die),
        .call_file = dwarf_hasattr(die, DW_AT_call_file)
                         ? walk_file(walk, unsigned_attribute(die, DW_AT_call_file))
                         : symbol_full_add_file(walk->builder, ""),
        .call_line = unsigned_attribute(die, DW_AT_call_line),
    };
    uint32_t index = symbol_full_add_node(walk->builder, node);
    add_ranges(walk, die, index, depth + 1);
    walk_inside(walk, die, index, depth + 1, level + 1);
}

static void walk_inside(struct walk *walk, Dwarf_Die *parent, uint32_t node, uint32_t depth,
                        int level) {
    Dwarf_Die child;
    if (level > MAX_DEPTH || !dwarf_haschildren(parent) || dwarf_child(parent, &child) != 0)
        return;
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_inlined_subroutine:
            visit_inlined(walk, &child, node, depth, level);
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
            walk_inside(walk, &child, node, depth, level + 1);
            break;
        case DW_TAG_subprogram:
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
            add_nested(walk, &child);
            break;
        default:
            break;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
}

/* Where the function is entered: the start of its first range. libdw's own answer knows nothing of
 * ranges. */
static bool find_entry(Dwarf_Die *die, Dwarf_Addr *entry) {
    Dwarf_Addr base, end;
    return dwarf_entrypc(die, entry) == 0 || dwarf_ranges(die, 0, &base, entry, &end) > 0;
}

static void walk_outside(struct walk *walk, Dwarf_Die *parent, int level);

static void visit_function(struct walk *walk, Dwarf_Die *die, int level) {
    Dwarf_Addr start;
    if (!has_code(die) || !find_entry(die, &start)) {
        walk_outside(walk, die, level); /* abstract: a lambda inside it may have code */
        return;
    }
    if (start < walk->base || start - walk->base > UINT32_MAX)
        return; /* code that was discarded */
    struct symbol_node node = {
        .parent = SYMBOL_NO_NODE,
        .function = walk_name(walk, die),
        .call_file = (uint32_t)(start - walk->base),
    };
    symbol_full_begin(walk->builder);
    uint32_t index = symbol_full_add_node(walk->builder, node);
    add_ranges(walk, die, index, 0);
    walk_inside(walk, die, index, 0, 0);
    symbol_full_end(walk->builder);
}

/* Everything that may hold functions, but is none. */
static void walk_outside(struct walk *walk, Dwarf_Die *parent, int level) {
    Dwarf_Die child;
    if (level > MAX_DEPTH || !dwarf_haschildren(parent) || dwarf_child(parent, &child) != 0)
        return;
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
            visit_function(walk, &child, level + 1);
            break;
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_enumeration_type:
        case DW_TAG_module:
        case DW_TAG_lexical_block:
            walk_outside(walk, &child, level + 1);
            break;
        default:
            break;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
}

void walk_functions(struct walk *walk, Dwarf_Die *unit) {
    walk->nested_count = 0;
    walk_outside(walk, unit, 0);
    /* Grows while it is walked: functions inside functions inside functions. */
    for (size_t i = 0; i < walk->nested_count; i++) {
        Dwarf_Die die = walk->nested[i];
        if (dwarf_tag(&die) == DW_TAG_subprogram)
            visit_function(walk, &die, 0);
        else
            walk_outside(walk, &die, 0);
    }
}
