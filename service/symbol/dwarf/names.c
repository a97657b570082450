/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of functions: the linkage name if one of a function's origins has it, else the plain
 * name with the scopes of its declaration. Members of classes inside functions, as lambdas of GCC,
 * and closures of Rust get a linkage name that is made up, so that they differ. */
#include "api/base/array.h"
#include "service/symbol/dwarf/walk.h"

#include "service/symbol/dwarf/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HOPS     8 /* a malicious file can have a cycle */
#define MAX_SCOPE    1536
#define MAX_NAME     512
#define MAX_MANGLED  2048 /* longer names are not demangled */
#define DIE_FUEL     64
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
    if (!array_room(&memo->items, &memo->capacity, memo->count, 1))
        return;
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

/* The names on the way to the name of a function: those of its DIE and its origins. */
struct found {
    const char *linkage; /* NULL = none of them has one */
    const char *name;    /* "" = none */
    struct dwarf_unit *unit;
    uint64_t offset; /* the last DIE */
};

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

static struct found find_names(struct dwarf_unit *own, struct dwarf_unit *unit, uint64_t offset) {
    struct found found = {.unit = unit, .offset = offset};
    struct dwarf_die die;
    for (int i = 0; i < MAX_HOPS && dwarf_fuel_take(found.unit->file->fuel, DIE_FUEL); i++) {
        if (!dwarf_die_at(found.unit, found.offset, &die))
            break;
        if (!found.name)
            found.name = dwarf_die_string(found.unit, &die, SLOT_NAME);
        found.linkage = dwarf_die_string(found.unit, &die, SLOT_LINKAGE_NAME);
        if (found.linkage && found.linkage[0])
            break;
        found.linkage = NULL;
        if (!follow(&die, &found.unit, &found.offset, own))
            break;
    }
    found.name = found.name ? found.name : "";
    return found;
}

static struct dwarf_scope_path path_of(const struct found *found) {
    struct dwarf_unit *unit = found->unit;
    struct dwarf_scope_path path;
    if (!unit->has_scopes) {
        dwarf_dies_read(unit, NULL);
        unit->file->opened_bytes += unit->scopes.capacity * sizeof *unit->scopes.items +
                                    unit->scopes.function_capacity * sizeof *unit->scopes.functions;
    }
    dwarf_scopes_path(&unit->scopes, found->offset, &path);
    return path;
}

/* The name of a scope. Lambdas outside of functions are numbered per source file. */
static void scope_name(const struct found *found, const struct dwarf_scope *scope, bool in_function,
                       char text[MAX_NAME]) {
    const char *file = dwarf_die_string(found->unit, &found->unit->root, SLOT_NAME);
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (scope->lambda && (in_function || !file))
        snprintf(text, MAX_NAME, "{lambda#%u}", scope->lambda);
    else if (scope->lambda)
        snprintf(text, MAX_NAME, "{lambda#%u in %s}", scope->lambda, slash ? slash + 1 : file);
    else
        snprintf(text, MAX_NAME, "%s",
                 scope->name           ? scope->name
                 : scope->is_namespace ? "(anonymous namespace)"
                                       : "(anonymous)");
}

/* "a::b::name" */
static uint32_t function_of_scoped(struct dwarf_walk *walk, const struct found *found,
                                   const struct dwarf_scope_path *path) {
    struct sonde_buf text = {.limit = MAX_SCOPE};
    char part[MAX_NAME];
    for (uint32_t i = path->count; i-- > 0 && !text.failed;) {
        scope_name(found, path->items[i], false, part);
        sonde_buf_puts(&text, part);
        sonde_buf_puts(&text, "::");
    }
    sonde_buf_puts(&text, found->name);
    uint32_t function =
        line_table_add_function(walk->builder, text.failed ? found->name : text.data, 0);
    sonde_buf_finish(&text);
    return function;
}

/* --- names of local classes ------------------------------------------------------------------- */

static void put_part(struct sonde_buf *mangled, const char *part) {
    sonde_buf_printf(mangled, "%zu%s", strlen(part), part);
}

/* Appends a function's name without "_Z", mangled as the Itanium C++ ABI defines it: for a member
 * of a local class "Z<enclosing function>EN<length><scope>...<length><name>E". Demanglers take any
 * text as a part, so types that have no name are their description. False if it is too deep. */
static bool put_function(struct sonde_buf *mangled, struct dwarf_unit *own,
                         const struct found *found, int depth) {
    struct dwarf_scope_path path;
    char part[MAX_NAME];
    if (found->linkage && strncmp(found->linkage, "_Z", 2) == 0) {
        sonde_buf_puts(mangled, found->linkage + 2);
        return true;
    }
    path = path_of(found);
    if (path.function) {
        struct found outer = find_names(own, found->unit, path.function);
        sonde_buf_putc(mangled, 'Z');
        if (depth == 0 || !put_function(mangled, own, &outer, depth - 1))
            return false;
        sonde_buf_putc(mangled, 'E');
    }
    sonde_buf_putc(mangled, 'N');
    for (uint32_t i = path.count; i-- > 0 && !mangled->failed;) {
        scope_name(found, path.items[i], path.function, part);
        put_part(mangled, part);
    }
    put_part(mangled, found->linkage ? found->linkage : found->name);
    sonde_buf_putc(mangled, 'E');
    return true;
}

/* A member of a class in a function, such as a lambda: "enclosing(int)::{lambda#1}::operator()". */
static uint32_t function_of_local(struct dwarf_walk *walk, struct dwarf_unit *own,
                                  const struct found *found, const struct dwarf_scope_path *path) {
    struct sonde_buf mangled = {.limit = MAX_MANGLED};
    sonde_buf_puts(&mangled, "_Z");
    bool good = put_function(&mangled, own, found, MAX_HOPS) && !mangled.failed;
    uint32_t function =
        good ? line_table_add_function(walk->builder, mangled.data, LINE_TABLE_IS_LINKAGE_NAME)
             : function_of_scoped(walk, found, path);
    sonde_buf_finish(&mangled);
    return function;
}

/* --- names of closures in Rust ---------------------------------------------------------------- */

#define RUST_CLOSURE   "28_$u7b$$u7b$closure$u7d$$u7d$"
#define CLOSURE_PREFIX "{closure#"

/* Collects the numbers of the closures that contain a closure, and its own; outermost first. */
static uint32_t closure_numbers(const struct found *found, uint32_t numbers[MAX_HOPS]) {
    struct dwarf_scope_path path = path_of(found);
    uint32_t count = 0;
    for (uint32_t i = path.count + 1; i-- > 0 && count < MAX_HOPS;) {
        const char *name = i > 0 ? path.items[i - 1]->name : found->name;
        if (name && strncmp(name, CLOSURE_PREFIX, strlen(CLOSURE_PREFIX)) == 0)
            numbers[count++] = (uint32_t)strtoul(name + strlen(CLOSURE_PREFIX), NULL, 10);
    }
    return count;
}

static uint32_t count_closures(const char *linkage) {
    uint32_t count = 0;
    for (; (linkage = strstr(linkage, RUST_CLOSURE)) != NULL; linkage++)
        count++;
    return count;
}

/* Rust's older mangling calls every closure {{closure}}, and only a hash tells those of a function
 * apart. DWARF has their numbers, which replace the last ones. */
static uint32_t function_of_closure(struct dwarf_walk *walk, const struct found *found) {
    uint32_t numbers[MAX_HOPS], known = closure_numbers(found, numbers);
    uint32_t total = count_closures(found->linkage), at = 0;
    struct sonde_buf mangled = {.limit = MAX_MANGLED};
    const char *rest = found->linkage;
    for (const char *next; (next = strstr(rest, RUST_CLOSURE)) != NULL; at++) {
        char part[64];
        sonde_buf_append(&mangled, rest, (size_t)(next - rest));
        snprintf(part, sizeof part, "_$u7b$closure$u23$%u$u7d$",
                 at + known >= total ? numbers[at + known - total] : 0);
        if (at + known >= total)
            put_part(&mangled, part);
        else
            sonde_buf_puts(&mangled, RUST_CLOSURE);
        rest = next + strlen(RUST_CLOSURE);
    }
    sonde_buf_puts(&mangled, rest);
    uint32_t function = line_table_add_function(
        walk->builder, mangled.failed ? found->linkage : mangled.data, LINE_TABLE_IS_LINKAGE_NAME);
    sonde_buf_finish(&mangled);
    return function;
}

static bool is_closure(const struct found *found) {
    return dwarf_die_language(&found->unit->root) == LANG_Rust &&
           strncmp(found->name, CLOSURE_PREFIX, strlen(CLOSURE_PREFIX)) == 0 &&
           strstr(found->linkage, RUST_CLOSURE);
}

/* --- entries ---------------------------------------------------------------------------------- */

static uint32_t resolve(struct dwarf_walk *walk, struct dwarf_unit *own, struct dwarf_unit *unit,
                        uint64_t offset) {
    struct found found = find_names(own, unit, offset);
    if (found.linkage)
        return is_closure(&found) ? function_of_closure(walk, &found)
                                  : function_of_linkage(walk, found.linkage);
    struct dwarf_scope_path path = path_of(&found);
    return path.function ? function_of_local(walk, own, &found, &path)
                         : function_of_scoped(walk, &found, &path);
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
