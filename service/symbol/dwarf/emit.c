/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes the entries of a unit to the builder. The entries of a nested function (a lambda's) are
 * among those of the outer function. The outer function skips them, because they are added as a
 * function of their own. */
#include "service/symbol/dwarf/walk.h"

static void add_ranges(struct dwarf_walk *walk, const struct dwarf_entry *entry) {
    for (uint32_t i = 0; i < entry->range_count; i++) {
        const struct dwarf_range *range = &walk->ranges.items[entry->first_range + i];
        line_table_add_range(walk->builder, range->start, range->end, entry->node, entry->depth);
    }
}

static void add_inlined(struct dwarf_walk *walk, struct dwarf_unit *unit,
                        struct dwarf_entry *entry) {
    struct line_table_node node = {
        .parent = walk->entries.items[entry->parent].node,
        .function = dwarf_entry_name(walk, unit, entry),
        .call_file = dwarf_lines_file(&walk->lines, entry->call_file, walk->builder),
        .call_line = entry->call_line,
    };
    entry->node = line_table_add_node(walk->builder, node);
    add_ranges(walk, entry);
}

static void add_function(struct dwarf_walk *walk, struct dwarf_unit *unit,
                         struct dwarf_entry *entry) {
    struct line_table_node node = {
        .parent = LINE_TABLE_NO_NODE,
        .function = dwarf_entry_name(walk, unit, entry),
        .call_file = (uint32_t)(entry->start - walk->base),
    };
    line_table_begin_function(walk->builder);
    entry->node = line_table_add_node(walk->builder, node);
    add_ranges(walk, entry);
    struct dwarf_entry *items = walk->entries.items;
    uint32_t first = (uint32_t)(entry - items);
    for (uint32_t i = first + 1; i < entry->end;) {
        bool is_nested = items[i].parent == DWARF_NO_ENTRY;
        if (!is_nested)
            add_inlined(walk, unit, &items[i]);
        i = is_nested ? items[i].end : i + 1;
    }
    line_table_end_function(walk->builder);
}

static bool is_known(const struct dwarf_walk *walk, const struct dwarf_entry *entry) {
    if (entry->range_count == 0)
        return false;
    const struct dwarf_range *range = &walk->ranges.items[entry->first_range];
    return line_table_has_range(walk->builder, range->start, range->end);
}

void dwarf_entries_emit(struct dwarf_walk *walk, struct dwarf_unit *unit) {
    for (uint32_t i = 0; i < walk->entries.count; i++)
        if (walk->entries.items[i].parent == DWARF_NO_ENTRY &&
            !is_known(walk, &walk->entries.items[i]))
            add_function(walk, unit, &walk->entries.items[i]);
}
