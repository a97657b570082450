/* SPDX-License-Identifier: Apache-2.0
 *
 * The internals of the walk, shared by walk.c (units), dies.c (the pass over the DIEs of a unit),
 * names.c, emit.c and split.c. A unit is read in two steps. The pass over its DIEs collects the
 * functions with code and the inlined calls as entries, each with the offset of its name. Then the
 * names are looked up and the entries go to the builder. That way a name can come after its use,
 * and DIEs that no entry refers to are read only once. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_WALK_H
#define SONDE_SERVICE_SYMBOL_DWARF_WALK_H

#include "api/hash_index.h"
#include "service/symbol/dwarf/dwarf.h"
#include "service/symbol/dwarf/lines.h"

#define DWARF_NO_ENTRY    UINT32_MAX
#define DWARF_NO_FUNCTION UINT32_MAX

/* A function with code, or a call inlined into one. */
struct dwarf_entry {
    uint64_t offset;           /* its DIE */
    struct dwarf_file *origin; /* the file of the DIE that has its name; NULL = its own DIE */
    uint64_t origin_offset;
    uint64_t start; /* the entry address of a function */
    uint64_t call_file;
    uint32_t call_line;
    uint32_t first_range, range_count;
    uint32_t parent; /* DWARF_NO_ENTRY = this is a function */
    uint32_t end;    /* the entry after the last one inside this one */
    uint32_t depth, node;
};

struct dwarf_entries {
    struct dwarf_entry *items;
    uint32_t count, capacity;
};

/* Origin → function, for calls of the same function; forgotten when it is full. */
struct dwarf_memo {
    struct dwarf_memo_item {
        uint64_t key;
        uint32_t function;
    } * items;
    uint32_t count, capacity;
    struct hash_index index; /* of items */
};

/* Function numbers by the address of their names. Linkers store a string once, so its address
 * stands for its text. */
#define DWARF_NAME_PLACES 16384u
struct dwarf_name_place {
    const char *name;
    uint32_t function;
};

struct dwarf_walk {
    struct line_table_builder *builder;
    uint64_t base, fuel;
    struct dwarf_file main, alt;
    const struct dwarf_sections *package;
    bool may_open;
    struct dwarf_lines lines;
    struct dwarf_ranges unit_ranges, ranges;
    struct dwarf_entries entries;
    struct dwarf_memo memo;
    struct dwarf_name_place places[DWARF_NAME_PLACES];
};

/* Passes over the DIEs of an open unit and fills entries, ranges and the unit's scopes; with `walk`
 * NULL, scopes only. False if the DIEs are damaged. */
bool dwarf_dies_read(struct dwarf_unit *unit, struct dwarf_walk *walk);
/* Passes all entries to the builder. */
void dwarf_entries_emit(struct dwarf_walk *walk, struct dwarf_unit *unit);
/* The builder's number of an entry's function. */
uint32_t dwarf_entry_name(struct dwarf_walk *walk, struct dwarf_unit *unit,
                          const struct dwarf_entry *entry);
void dwarf_memo_init(struct dwarf_memo *memo);
void dwarf_memo_forget(struct dwarf_memo *memo);
void dwarf_memo_finish(struct dwarf_memo *memo);
/* Walks the split unit of a skeleton. False if it cannot be found or read. */
bool dwarf_split_walk(struct dwarf_walk *walk, const struct dwarf_unit *skeleton);

#endif
