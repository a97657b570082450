/* SPDX-License-Identifier: Apache-2.0
 *
 * What a function is called. Its linkage name when it has one; GCC gives none to static functions
 * and those of anonymous namespaces, whose scope is then put together from the DIEs around. */
#include "service/symbol/dwarf_walk.h"

#include <stdio.h>
#include <string.h>

#define MAX_SCOPE_DEPTH 64
#define MAX_SCOPE_TEXT  1024

/* The DIE that carries the declaration: what the chain of origins and specifications ends in. */
static void find_origin(Dwarf_Die *die, Dwarf_Die *origin) {
    *origin = *die;
    for (int i = 0; i < 8; i++) { /* a hostile file may make it a circle */
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if (!dwarf_attr(origin, DW_AT_abstract_origin, &attribute) &&
            !dwarf_attr(origin, DW_AT_specification, &attribute))
            return;
        if (!dwarf_formref_die(&attribute, &next))
            return;
        *origin = next;
    }
}

static const char *linkage_name(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    return name && name[0] ? name : NULL;
}

static uint32_t scoped_name(struct walk *walk, const void *origin, const char *name) {
    char text[MAX_SCOPE_TEXT + 256];
    uint32_t scope;
    if (!walk_map_find(&walk->scopes, origin, &scope))
        return symbol_full_add_function(walk->builder, name, 0);
    snprintf(text, sizeof text, "%s%s", walk->scope_text.data + scope, name);
    return symbol_full_add_function(walk->builder, text, 0);
}

uint32_t walk_name(struct walk *walk, Dwarf_Die *die) {
    Dwarf_Die origin;
    uint32_t function;
    find_origin(die, &origin);
    if (walk_map_find(&walk->names, origin.addr, &function))
        return function;
    const char *linkage = linkage_name(die);
    if (linkage) {
        function = symbol_full_add_function(walk->builder, linkage, SYMBOL_NAME_IS_LINKAGE);
    } else {
        Dwarf_Attribute attribute;
        const char *name =
            dwarf_attr_integrate(die, DW_AT_name, &attribute) ? dwarf_formstring(&attribute) : NULL;
        function = scoped_name(walk, origin.addr, name ? name : "");
    }
    walk_map_add(&walk->names, origin.addr, function);
    return function;
}

/* --- scopes ------------------------------------------------------------------------------------
 */

struct scope {
    char text[MAX_SCOPE_TEXT];
    size_t len;
};

static bool opens_scope(int tag) {
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type;
}

static void remember_scope(struct walk *walk, Dwarf_Die *die, const struct scope *scope) {
    if (dwarf_hasattr(die, DW_AT_linkage_name) || scope->len == 0)
        return;
    uint32_t at = (uint32_t)walk->scope_text.len;
    sonde_buf_append(&walk->scope_text, scope->text, scope->len + 1);
    if (!walk->scope_text.failed)
        walk_map_add(&walk->scopes, die->addr, at);
}

static void walk_scope(struct walk *walk, Dwarf_Die *parent, struct scope *scope, int depth) {
    Dwarf_Die child;
    if (depth > MAX_SCOPE_DEPTH || dwarf_child(parent, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_subprogram)
            remember_scope(walk, &child, scope);
        if (!opens_scope(tag))
            continue;
        size_t outer = scope->len;
        const char *name = dwarf_diename(&child);
        const char *shown = name                      ? name
                            : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                      : "(anonymous)";
        int added = snprintf(scope->text + outer, sizeof scope->text - outer, "%s::", shown);
        if (added > 0 && outer + (size_t)added < sizeof scope->text) {
            scope->len = outer + (size_t)added;
            walk_scope(walk, &child, scope, depth + 1);
        }
        scope->len = outer;
        scope->text[outer] = 0;
    } while (dwarf_siblingof(&child, &child) == 0);
}

void walk_scopes(struct walk *walk, Dwarf_Die *unit) {
    struct scope scope = {.len = 0};
    walk_scope(walk, unit, &scope, 0);
}
