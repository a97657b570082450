/* SPDX-License-Identifier: Apache-2.0
 *
 * What a function is called: its linkage name where one stands in the chain of its origins, else
 * its name with the scopes around its declaration. */
#include "service/symbol/dwarf/walk.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_HOPS     8 /* a hostile file may make the chain a circle */
#define MAX_SCOPE    1024
#define MAX_NAME     512
#define DIE_FUEL     64
#define FIRST_MEMO   1024u
#define LARGEST_MEMO ((size_t)1 << 20)

/* --- the memo ----------------------------------------------------------------------------------
 */

void dwarf_memo_finish(struct dwarf_memo *memo) {
    free(memo->keys);
    free(memo->values);
    *memo = (struct dwarf_memo){0};
}

void dwarf_memo_forget(struct dwarf_memo *memo) {
    if (memo->count > 0)
        memset(memo->keys, 0, (memo->mask + 1) * sizeof *memo->keys);
    memo->count = 0;
}

static size_t place_in(const struct dwarf_memo *memo, uint64_t key) {
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15ull >> 20) & memo->mask;
    while (memo->keys[at] != 0 && memo->keys[at] != key)
        at = (at + 1) & memo->mask;
    return at;
}

static bool grow(struct dwarf_memo *memo) {
    size_t size = memo->mask ? 4 * (memo->mask + 1) : FIRST_MEMO;
    struct dwarf_memo wider = {calloc(size, sizeof *wider.keys), malloc(size * sizeof(uint32_t)),
                               size - 1, memo->count};
    if (!wider.keys || !wider.values) {
        dwarf_memo_finish(&wider);
        return false;
    }
    for (size_t i = 0; memo->mask && i <= memo->mask; i++) {
        if (memo->keys[i] == 0)
            continue;
        size_t at = place_in(&wider, memo->keys[i]);
        wider.keys[at] = memo->keys[i];
        wider.values[at] = memo->values[i];
    }
    dwarf_memo_finish(memo);
    *memo = wider;
    return true;
}

static uint32_t recall(const struct dwarf_memo *memo, uint64_t key) {
    size_t at = memo->mask ? place_in(memo, key) : 0;
    return memo->mask && memo->keys[at] ? memo->values[at] : DWARF_NO_FUNCTION;
}

static void remember(struct dwarf_memo *memo, uint64_t key, uint32_t function) {
    if (memo->count >= LARGEST_MEMO)
        dwarf_memo_forget(memo);
    if (2 * memo->count >= memo->mask && !grow(memo))
        return;
    size_t at = place_in(memo, key);
    memo->count += memo->keys[at] == 0;
    memo->keys[at] = key;
    memo->values[at] = function;
}

/* --- names -------------------------------------------------------------------------------------
 */

/* A linker keeps one copy of a text: its place is looked up instead of its bytes. */
static uint32_t function_of_linkage(struct dwarf_walk *walk, const char *name) {
    uint64_t hash = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15ull;
    struct dwarf_name_place *place = &walk->places[hash >> 40 & (DWARF_NAME_PLACES - 1)];
    if (place->name == name)
        return place->function;
    uint32_t function = symbol_full_add_function(walk->builder, name, SYMBOL_NAME_IS_LINKAGE);
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
        return symbol_full_add_function(walk->builder, name, 0);
    size_t len = strlen(text);
    snprintf(text + len, sizeof text - len, "%s", name);
    return symbol_full_add_function(walk->builder, text, 0);
}

/* The next DIE of the chain, in `unit` at `offset`; false at its end. */
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
    if (entry->parent == DWARF_NO_ENTRY) { /* of a constructor's copies each has its own name */
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
        return symbol_full_add_function(walk->builder, "", 0);
    function = resolve(walk, unit, origin, entry->origin_offset);
    remember(&walk->memo, key, function);
    return function;
}
