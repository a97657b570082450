/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of functions: the linkage name if one of a function's origins has it, else the plain
 * name with the scopes of its declaration. */
#include "service/symbol/dwarf/walk.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_HOPS     8 /* a malicious file can have a cycle */
#define MAX_SCOPE    1024
#define MAX_NAME     512
#define DIE_FUEL     64
#define FIRST_MEMO   1024u
#define LARGEST_MEMO ((size_t)1 << 20)

/* --- the memo --------------------------------------------------------------------------------- */

void dwarf_memo_init(struct dwarf_memo *memo) {
    *memo = (struct dwarf_memo){0};
    hash_index_init(&memo->index);
}

void dwarf_memo_finish(struct dwarf_memo *memo) {
    free(memo->items);
    hash_index_finish(&memo->index);
    *memo = (struct dwarf_memo){0};
}

void dwarf_memo_forget(struct dwarf_memo *memo) {
    hash_index_clear(&memo->index);
    memo->count = 0;
}

static uint32_t recall(const struct dwarf_memo *memo, uint64_t key) {
    struct hash_probe probe = hash_probe(hash_index_words(&memo->index, key, 0));
    uint32_t number;
    while ((number = hash_index_next(&memo->index, &probe)) != HASH_INDEX_NONE)
        if (memo->items[number].key == key)
            return memo->items[number].function;
    return DWARF_NO_FUNCTION;
}

/* Adds a new key, unless out of memory. */
static void remember(struct dwarf_memo *memo, uint64_t key, uint32_t function) {
    if (memo->count >= LARGEST_MEMO)
        dwarf_memo_forget(memo);
    if (memo->count == memo->capacity) {
        uint32_t capacity = memo->capacity ? 2 * memo->capacity : FIRST_MEMO;
        struct dwarf_memo_item *items = realloc(memo->items, capacity * sizeof *items);
        if (!items)
            return;
        memo->items = items;
        memo->capacity = capacity;
    }
    uint32_t hash = hash_index_words(&memo->index, key, 0);
    if (hash_index_add(&memo->index, hash, memo->count))
        memo->items[memo->count++] = (struct dwarf_memo_item){key, function};
}

/* --- names ------------------------------------------------------------------------------------ */

/* Looks up the name by its address: linkers merge equal strings, so that mostly suffices. */
static uint32_t function_of_linkage(struct dwarf_walk *walk, const char *name) {
    uint64_t hash = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15ull;
    struct dwarf_name_place *place = &walk->places[hash >> 40 & (DWARF_NAME_PLACES - 1)];
    if (place->name == name)
        return place->function;
    uint32_t function = line_table_add_function(walk->builder, name, LINE_TABLE_IS_LINKAGE_NAME);
    *place = (struct dwarf_name_place){name, function};
    return function;
}

static uint32_t function_of_scoped(struct dwarf_walk *walk, struct dwarf_unit *unit,
                                   uint64_t offset, const char *name) {
    char text[MAX_SCOPE + MAX_NAME];
    if (!unit->has_scopes) {
        dwarf_dies_read(unit, NULL);
        unit->file->opened_bytes += unit->scopes.capacity * sizeof *unit->scopes.items +
                                    unit->scopes.function_capacity * sizeof *unit->scopes.functions;
    }
    dwarf_scopes_text(&unit->scopes, offset, text, MAX_SCOPE);
    if (text[0] == 0)
        return line_table_add_function(walk->builder, name, 0);
    size_t len = strlen(text);
    snprintf(text + len, sizeof text - len, "%s", name);
    return line_table_add_function(walk->builder, text, 0);
}

/* Finds the DIE that this one refers to as its origin. False if there is none. */
static bool follow(const struct dwarf_die *die, struct dwarf_unit **unit, uint64_t *offset,
                   struct dwarf_unit *own) {
    enum dwarf_slot slot = dwarf_die_has(die, SLOT_ORIGIN) ? SLOT_ORIGIN : SLOT_SPECIFICATION;
    struct dwarf_file *file;
    uint64_t to;
    if (!dwarf_die_has(die, slot) || !dwarf_value_reference(*unit, die->values[slot], &file, &to))
        return false;
    struct dwarf_unit *next = dwarf_unit_at(file, to, own);
    if (!next)
        return false;
    *unit = next;
    *offset = to;
    return true;
}

static uint32_t resolve(struct dwarf_walk *walk, struct dwarf_unit *own, struct dwarf_unit *unit,
                        uint64_t offset) {
    const char *name = NULL;
    struct dwarf_die die;
    for (int i = 0; i < MAX_HOPS && dwarf_fuel_take(unit->file->fuel, DIE_FUEL); i++) {
        if (!dwarf_die_at(unit, offset, &die))
            break;
        const char *linkage = dwarf_die_string(unit, &die, SLOT_LINKAGE_NAME);
        if (linkage && linkage[0])
            return function_of_linkage(walk, linkage);
        if (!name)
            name = dwarf_die_string(unit, &die, SLOT_NAME);
        if (!follow(&die, &unit, &offset, own))
            break;
    }
    return function_of_scoped(walk, unit, offset, name ? name : "");
}

uint32_t dwarf_entry_name(struct dwarf_walk *walk, struct dwarf_unit *unit,
                          const struct dwarf_entry *entry) {
    struct dwarf_die die;
    if (!entry->origin)
        return resolve(walk, unit, unit, entry->offset);
    if (entry->parent == DWARF_NO_ENTRY) { /* each variant of a constructor has its own name */
        if (dwarf_die_at(unit, entry->offset, &die) &&
            (dwarf_die_has(&die, SLOT_LINKAGE_NAME) || dwarf_die_has(&die, SLOT_NAME)))
            return resolve(walk, unit, unit, entry->offset);
    }
    uint64_t key = entry->origin_offset << 1 | (entry->origin == &walk->alt);
    uint32_t function = recall(&walk->memo, key);
    if (function != DWARF_NO_FUNCTION)
        return function;
    struct dwarf_unit *origin = dwarf_unit_at(entry->origin, entry->origin_offset, unit);
    if (!origin)
        return line_table_add_function(walk->builder, "", 0);
    function = resolve(walk, unit, origin, entry->origin_offset);
    remember(&walk->memo, key, function);
    return function;
}
