/* SPDX-License-Identifier: Apache-2.0
 *
 * The scopes in which functions are declared. GCC writes no linkage names for static functions, for
 * those in anonymous namespaces and for most lambdas, so their qualified names are built from the
 * surrounding DIEs (names.c). The namespaces and classes of a unit form a tree, to which functions
 * without a linkage name refer. A class inside a function has the function as its scope. Both lists
 * are in the order of .debug_info. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_DWARF_SCOPES_H
#define SONDE_SERVICE_SYMBOL_DWARF_SCOPES_H

#include "api/bytes.h"

#define DWARF_NO_SCOPE UINT32_MAX

struct dwarf_scope {
    uint32_t parent;
    uint32_t lambda;   /* number of a lambda's type in its function or unit, from 1; else 0 */
    const char *name;  /* borrowed from the sections; NULL = it has none */
    uint64_t function; /* the offset of a function's DIE; 0 = a namespace or class */
    bool is_namespace;
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

/* Add a scope and return its number, or DWARF_NO_SCOPE if out of memory. */
uint32_t dwarf_scopes_add(struct dwarf_scopes *scopes, const struct dwarf_unit *unit,
                          const struct dwarf_die *die, uint32_t parent);
uint32_t dwarf_scopes_add_enclosing(struct dwarf_scopes *scopes, uint64_t function);
void dwarf_scopes_add_function(struct dwarf_scopes *scopes, uint64_t offset, uint32_t scope);

#define DWARF_SCOPE_DEPTH 64
struct dwarf_scope_path {
    const struct dwarf_scope *items[DWARF_SCOPE_DEPTH]; /* innermost first */
    uint32_t count;
    uint64_t function; /* the function that contains the outermost item; 0 = none */
};
/* The scopes of the function at that offset, up to an enclosing function. Without any if they are
 * too deep. */
void dwarf_scopes_path(const struct dwarf_scopes *scopes, uint64_t offset,
                       struct dwarf_scope_path *path);
void dwarf_scopes_clear(struct dwarf_scopes *scopes);
void dwarf_scopes_finish(struct dwarf_scopes *scopes);

#endif
