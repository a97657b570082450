/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass over the DIEs of a unit. Most DIEs are of no interest and cost one lookup of their
 * abbreviation and one addition. A subtree of no interest is skipped by its DIE's sibling
 * attribute, which GCC writes, else DIE by DIE. */
#include "service/symbol/dwarf/walk.h"

#include "service/symbol/dwarf/constants.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512

/* A DIE whose children are being read. */
struct frame {
    uint32_t parent; /* the innermost entry; DWARF_NO_ENTRY = outside of functions */
    uint32_t opened; /* the entry of this DIE, or DWARF_NO_ENTRY */
    uint32_t scope;  /* the innermost scope; DWARF_NO_SCOPE = the unit or a function */
    bool has_scope;  /* functions below it are members of scope */
    uint32_t around; /* the frame of the innermost function; 0 = the unit */
    /* Of functions and the unit: */
    uint32_t lambdas;  /* the number of lambdas in it so far */
    uint32_t as_scope; /* of the classes in it; DWARF_NO_SCOPE = not needed yet */
    uint64_t offset;
};

struct pass {
    struct dwarf_unit *unit;
    struct dwarf_walk *walk; /* NULL = scopes only */
    struct cursor cursor;
    const uint8_t *info;
    bool is_rust;
    struct frame frames[MAX_DEPTH];
    uint32_t depth;
    struct dwarf_die die;
};

static uint64_t offset_of(const struct pass *pass) {
    return (uint64_t)(pass->cursor.at - pass->info);
}

/* --- skipping ---------------------------------------------------------------------------- */

/* Skips the attributes of a DIE of no interest, and its children if it has a sibling attribute.
 * Returns whether its children come next. */
static bool enters(struct pass *pass, const struct dwarf_abbrev *abbrev) {
    if (!abbrev->has_children) {
        if (abbrev->op_count > 0)
            dwarf_die_skip(pass->unit, &pass->cursor, abbrev);
        else
            cursor_skip(&pass->cursor, abbrev->tail);
        return false;
    }
    dwarf_die_rest(pass->unit, &pass->cursor, abbrev, &pass->die);
    uint64_t sibling = dwarf_die_sibling(pass->unit, &pass->die, offset_of(pass));
    if (sibling)
        pass->cursor.at = pass->info + sibling;
    return sibling == 0;
}

/* The next DIE's abbreviation; NULL at the end of a list of children, or if it is damaged. */
static const struct dwarf_abbrev *next(struct pass *pass) {
    uint64_t code = cursor_uleb(&pass->cursor);
    if (code == 0)
        return NULL;
    const struct dwarf_abbrev *abbrev = dwarf_abbrev_find(pass->unit->abbrevs, code);
    if (!abbrev)
        cursor_fail(&pass->cursor);
    return abbrev;
}

/* Skips the children of a DIE whose attributes were read. */
static void skip_children(struct pass *pass, const struct dwarf_die *die) {
    if (!die->abbrev->has_children)
        return;
    uint64_t sibling = dwarf_die_sibling(pass->unit, die, offset_of(pass));
    if (sibling) {
        pass->cursor.at = pass->info + sibling;
        return;
    }
    for (uint64_t depth = 1; depth > 0 && pass->cursor.at < pass->cursor.end;) {
        const struct dwarf_abbrev *abbrev = next(pass);
        if (!abbrev)
            depth--;
        else
            depth += enters(pass, abbrev);
    }
}

/* --- entries ---------------------------------------------------------------------------------- */

static struct dwarf_entry *add_entry(struct dwarf_entries *entries, uint64_t offset) {
    if (entries->count == entries->capacity) {
        uint32_t capacity = entries->capacity ? 2 * entries->capacity : 256;
        struct dwarf_entry *items = capacity < DWARF_NO_ENTRY / 2
                                        ? realloc(entries->items, capacity * sizeof *items)
                                        : NULL;
        if (!items)
            return NULL;
        entries->items = items;
        entries->capacity = capacity;
    }
    struct dwarf_entry *entry = &entries->items[entries->count++];
    *entry =
        (struct dwarf_entry){.offset = offset, .parent = DWARF_NO_ENTRY, .end = entries->count};
    return entry;
}

static void find_origin(const struct dwarf_unit *unit, const struct dwarf_die *die,
                        struct dwarf_entry *entry) {
    enum dwarf_slot slot = dwarf_die_has(die, SLOT_ORIGIN) ? SLOT_ORIGIN : SLOT_SPECIFICATION;
    if (!dwarf_die_has(die, slot) ||
        !dwarf_value_reference(unit, die->values[slot], &entry->origin, &entry->origin_offset))
        entry->origin = NULL;
}

static void add_ranges(struct pass *pass, struct dwarf_entry *entry) {
    struct dwarf_ranges *ranges = &pass->walk->ranges;
    size_t first = ranges->count;
    dwarf_ranges_add(ranges, pass->unit, &pass->die);
    entry->first_range = (uint32_t)first;
    entry->range_count = (uint32_t)(ranges->count - first);
}

static uint32_t number_of(const struct dwarf_die *die, enum dwarf_slot slot) {
    if (!dwarf_die_has(die, slot) || die->values[slot].number > UINT32_MAX)
        return 0;
    return (uint32_t)die->values[slot].number;
}

static struct dwarf_entry *add_inlined(struct pass *pass, uint32_t parent) {
    struct dwarf_entry *entry = add_entry(&pass->walk->entries, pass->die.offset);
    if (!entry)
        return NULL;
    entry->parent = parent;
    entry->depth = pass->walk->entries.items[parent].depth + 1;
    entry->call_line = number_of(&pass->die, SLOT_CALL_LINE);
    entry->call_file = dwarf_die_has(&pass->die, SLOT_CALL_FILE)
                           ? pass->die.values[SLOT_CALL_FILE].number
                           : UINT64_MAX;
    find_origin(pass->unit, &pass->die, entry);
    add_ranges(pass, entry);
    return entry;
}

/* The entry address: DW_AT_entry_pc, else DW_AT_low_pc, else the start of the first range. */
static bool find_start(const struct pass *pass, struct dwarf_entry *entry) {
    static const enum dwarf_slot slots[] = {SLOT_ENTRY_PC, SLOT_LOW_PC};
    for (int i = 0; i < 2; i++)
        if (dwarf_die_has(&pass->die, slots[i]) &&
            dwarf_value_address(pass->unit, pass->die.values[slots[i]], &entry->start))
            return true;
    if (entry->range_count > 0)
        entry->start = pass->walk->ranges.items[entry->first_range].start;
    return entry->range_count > 0;
}

enum code { NO_CODE, DISCARDED_CODE, HAS_CODE };

static enum code add_function(struct pass *pass) {
    if (!dwarf_die_has(&pass->die, SLOT_LOW_PC) && !dwarf_die_has(&pass->die, SLOT_RANGES))
        return NO_CODE;
    struct dwarf_entry *entry = add_entry(&pass->walk->entries, pass->die.offset);
    if (!entry)
        return DISCARDED_CODE;
    find_origin(pass->unit, &pass->die, entry);
    add_ranges(pass, entry);
    enum code code = find_start(pass, entry) ? HAS_CODE : NO_CODE;
    if (code == HAS_CODE &&
        (entry->start < pass->walk->base || entry->start - pass->walk->base > UINT32_MAX))
        code = DISCARDED_CODE;
    if (code == HAS_CODE)
        return code;
    pass->walk->ranges.count = entry->first_range;
    pass->walk->entries.count--;
    return code;
}

/* --- the pass --------------------------------------------------------------------------------- */

static void open_frame(struct pass *pass, struct frame frame) {
    if (!pass->die.abbrev->has_children)
        return;
    if (pass->depth == MAX_DEPTH)
        skip_children(pass, &pass->die);
    else
        pass->frames[pass->depth++] = frame;
}

static const struct frame outside = {
    .parent = DWARF_NO_ENTRY, .opened = DWARF_NO_ENTRY, .scope = DWARF_NO_SCOPE};

/* A frame inside of `around` that is no scope. */
static struct frame inside(const struct frame *around) {
    struct frame frame = outside;
    frame.has_scope = around->has_scope;
    frame.around = around->around;
    return frame;
}

static bool begins(const char *text, const char *start) {
    return text && strncmp(text, start, strlen(start)) == 0;
}

/* A type without a name that has operator() is a lambda's. */
static void count_lambda(struct pass *pass, const struct frame *around, const char *name) {
    struct dwarf_scope *scope = &pass->unit->scopes.items[around->scope];
    if (!scope->name && !scope->is_namespace && scope->lambda == 0 && begins(name, "operator()"))
        scope->lambda = ++pass->frames[around->around].lambdas;
}

/* Remembers the scope of a function whose linkage name is missing or, as that of a closure in Rust,
 * is not its own. */
static void add_scoped(struct pass *pass, const struct frame *around) {
    bool has_linkage = dwarf_die_has(&pass->die, SLOT_LINKAGE_NAME);
    if (!around->has_scope || around->scope == DWARF_NO_SCOPE || (has_linkage && !pass->is_rust))
        return;
    const char *name = dwarf_die_string(pass->unit, &pass->die, SLOT_NAME);
    if (has_linkage && !begins(name, "{closure#"))
        return;
    dwarf_scopes_add_function(&pass->unit->scopes, pass->die.offset, around->scope);
    count_lambda(pass, around, name);
}

static void visit_function(struct pass *pass, const struct frame *around) {
    struct frame frame = inside(around);
    frame.around = pass->depth;
    frame.as_scope = DWARF_NO_SCOPE;
    frame.offset = pass->die.offset;
    add_scoped(pass, around);
    enum code code = pass->walk ? add_function(pass) : around->has_scope ? NO_CODE : DISCARDED_CODE;
    if (code == DISCARDED_CODE) {
        skip_children(pass, &pass->die);
        return;
    }
    if (code == HAS_CODE) /* otherwise it is abstract, but a lambda inside it can have code */
        frame.parent = frame.opened = pass->walk->entries.count - 1;
    open_frame(pass, frame);
}

/* The scope that contains a class; for the first class in a function, a new one. */
static uint32_t scope_around(struct pass *pass, const struct frame *around) {
    struct frame *function = &pass->frames[around->around];
    if (around->scope != DWARF_NO_SCOPE || around->around == 0)
        return around->scope;
    if (function->as_scope == DWARF_NO_SCOPE)
        function->as_scope = dwarf_scopes_add_enclosing(&pass->unit->scopes, function->offset);
    return function->as_scope;
}

static void visit_scope(struct pass *pass, const struct frame *around) {
    struct frame frame = inside(around);
    if (frame.has_scope && pass->die.abbrev->has_children)
        frame.scope = dwarf_scopes_add(&pass->unit->scopes, pass->unit, &pass->die,
                                       scope_around(pass, around));
    open_frame(pass, frame);
}

static void visit_inlined(struct pass *pass, uint32_t parent) {
    struct frame frame = outside;
    if (parent == DWARF_NO_ENTRY || !add_inlined(pass, parent)) {
        skip_children(pass, &pass->die);
        return;
    }
    frame.parent = frame.opened = pass->walk->entries.count - 1;
    open_frame(pass, frame);
}

static void visit(struct pass *pass, enum dwarf_role role) {
    struct frame around = pass->frames[pass->depth - 1], frame = inside(&around);
    switch (role) {
    case ROLE_FUNCTION:
        visit_function(pass, &around);
        break;
    case ROLE_SCOPE:
        visit_scope(pass, &around);
        break;
    case ROLE_INLINED:
        visit_inlined(pass, around.parent);
        break;
    case ROLE_HOLDER:
        open_frame(pass, outside);
        break;
    case ROLE_BLOCK:
        frame.parent = around.parent;
        open_frame(pass, frame);
        break;
    case ROLE_CATCH:
        frame.parent = around.parent;
        if (around.parent != DWARF_NO_ENTRY) {
            open_frame(pass, frame);
            break;
        }
        skip_children(pass, &pass->die);
        break;
    default:
        skip_children(pass, &pass->die);
        break;
    }
}

static void close_frame(struct pass *pass) {
    const struct frame *frame = &pass->frames[--pass->depth];
    if (frame->opened != DWARF_NO_ENTRY)
        pass->walk->entries.items[frame->opened].end = pass->walk->entries.count;
}

static void step(struct pass *pass) {
    uint64_t offset = offset_of(pass);
    const struct dwarf_abbrev *abbrev = next(pass);
    if (!abbrev) {
        close_frame(pass);
        return;
    }
    if (abbrev->role == ROLE_NONE) {
        if (enters(pass, abbrev))
            skip_children(pass, &pass->die);
        return;
    }
    pass->die.offset = offset;
    dwarf_die_rest(pass->unit, &pass->cursor, abbrev, &pass->die);
    if (!pass->cursor.failed)
        visit(pass, (enum dwarf_role)abbrev->role);
}

/* Scopes are part of names in C++ and Rust; in other languages, a function without a linkage name
 * is known by its plain name. */
static bool has_scopes(const struct dwarf_die *root) {
    switch (dwarf_die_language(root)) {
    case LANG_Rust:
    case LANG_C_plus_plus:
    case LANG_ObjC_plus_plus:
    case LANG_C_plus_plus_03:
    case LANG_C_plus_plus_11:
    case LANG_C_plus_plus_14:
    case LANG_C_plus_plus_17:
    case LANG_C_plus_plus_20:
        return true;
    default:
        return false;
    }
}

bool dwarf_dies_read(struct dwarf_unit *unit, struct dwarf_walk *walk) {
    struct sonde_slice info = unit->file->of[DWARF_INFO];
    struct pass pass = {.unit = unit, .walk = walk, .info = (const uint8_t *)info.data};
    if (!dwarf_fuel_take(unit->file->fuel, unit->end - unit->first))
        return false;
    unit->has_scopes = true;
    pass.cursor = cursor_at(info, unit->first, unit->end - unit->first);
    const struct dwarf_abbrev *root = next(&pass);
    if (!root)
        return false;
    dwarf_die_rest(unit, &pass.cursor, root, &pass.die);
    if (root->has_children)
        pass.frames[pass.depth++] = outside;
    pass.frames[0].has_scope = has_scopes(&pass.die);
    pass.is_rust = dwarf_die_language(&pass.die) == LANG_Rust;
    while (pass.depth > 0 && pass.cursor.at < pass.cursor.end)
        step(&pass);
    bool whole = !pass.cursor.failed;
    while (pass.depth > 0)
        close_frame(&pass);
    return whole;
}
