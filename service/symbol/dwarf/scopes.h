/* SPDX-License-Identifier: Apache-2.0
 *
 * The scopes in which functions are declared. GCC writes no linkage names for static functions and
 * for those in anonymous namespaces, so their qualified names are built from the surrounding DIEs.
 * The namespaces and classes of a unit form a tree, to which functions without a linkage name
 * refer. Both lists are in the order of .debug_info. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_SCOPES_H
#define SONDE_SERVICE_SYMBOL_DWARF_SCOPES_H

#include "api/bytes.h"

#define DWARF_NO_SCOPE UINT32_MAX

struct dwarf_scope {
    uint32_t parent;
    const char *name; /* borrowed from the sections */
};

struct dwarf_scoped {
    uint64_t offset;
    uint32_t scope;
};

struct dwarf_scopes {
    struct dwarf_scope *items;
    struct dwarf_scoped *functions;
    uint32_t count, capacity, function_count, function_capacity;
};

struct dwarf_unit;
struct dwarf_die;

/* Adds a scope and returns its number, or DWARF_NO_SCOPE if out of memory. */
uint32_t dwarf_scopes_add(struct dwarf_scopes *scopes, const struct dwarf_unit *unit,
                          const struct dwarf_die *die, uint32_t parent);
void dwarf_scopes_add_function(struct dwarf_scopes *scopes, uint64_t offset, uint32_t scope);
/* Writes "a::b::" for the function at that offset; "" if it has no scope, or if it does not fit. */
void dwarf_scopes_text(const struct dwarf_scopes *scopes, uint64_t offset, char *text, size_t size);
void dwarf_scopes_clear(struct dwarf_scopes *scopes);
void dwarf_scopes_finish(struct dwarf_scopes *scopes);

#endif
