/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the walk share: walk.c (units), dies.c (one pass over the DIEs of a unit),
 * names.c, emit.c, split.c. A unit is read in two steps. The pass over its DIEs notes functions
 * with code and inlined calls, in the order they come, with where their names stand; then names are
 * looked up and the builder is told. So a name may stand behind its use, and a DIE that nobody asks
 * for is never looked at again. */
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
    struct dwarf_file *origin; /* where its name stands, NULL = with it */
    uint64_t origin_offset;
    uint64_t start; /* of a function: where it is entered */
    uint64_t call_file;
    uint32_t call_line;
    uint32_t first_range, range_count;
    uint32_t parent; /* DWARF_NO_ENTRY = a function */
    uint32_t end;    /* behind the last entry inside */
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

/* Function names by their place in memory, which for a linker is their text. */
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
    bool is_broken; /* the unit at hand */
    struct dwarf_lines lines;
    struct dwarf_ranges unit_ranges, ranges;
    struct dwarf_entries entries;
    struct dwarf_memo memo;
    struct dwarf_name_place places[DWARF_NAME_PLACES];
};

/* One pass over the DIEs of an open unit: fills entries, ranges and the unit's scopes. `walk` NULL:
 * scopes only. False when the DIEs end in a way they should not. */
bool dwarf_dies_read(struct dwarf_unit *unit, struct dwarf_walk *walk);
/* Tells the builder of all entries. */
void dwarf_entries_emit(struct dwarf_walk *walk, struct dwarf_unit *unit);
/* The function that an entry stands for. */
uint32_t dwarf_entry_name(struct dwarf_walk *walk, struct dwarf_unit *unit,
                          const struct dwarf_entry *entry);
void dwarf_memo_init(struct dwarf_memo *memo);
void dwarf_memo_forget(struct dwarf_memo *memo);
void dwarf_memo_finish(struct dwarf_memo *memo);
/* Walks what the skeleton stands for; false when it cannot be found. */
bool dwarf_split_walk(struct dwarf_walk *walk, const struct dwarf_unit *skeleton);

#endif
