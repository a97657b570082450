/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/scopes.h"

#include "api/base/array.h"
#include "service/symbol/dwarf/constants.h"
#include "service/symbol/dwarf/unit.h"

#include <stdlib.h>

static uint32_t add(struct dwarf_scopes *scopes, struct dwarf_scope scope) {
    if (!array_room(&scopes->items, &scopes->capacity, scopes->count, 1))
        return DWARF_NO_SCOPE;
    scopes->items[scopes->count] = scope;
    return scopes->count++;
}

uint32_t dwarf_scopes_add(struct dwarf_scopes *scopes, const struct dwarf_unit *unit,
                          const struct dwarf_die *die, uint32_t parent) {
    return add(scopes, (struct dwarf_scope){.parent = parent,
                                            .name = dwarf_die_string(unit, die, SLOT_NAME),
                                            .is_namespace = die->abbrev->tag == TAG_namespace});
}

uint32_t dwarf_scopes_add_enclosing(struct dwarf_scopes *scopes, uint64_t function) {
    return add(scopes, (struct dwarf_scope){.parent = DWARF_NO_SCOPE, .function = function});
}

void dwarf_scopes_add_function(struct dwarf_scopes *scopes, uint64_t offset, uint32_t scope) {
    if (array_room(&scopes->functions, &scopes->function_capacity, scopes->function_count, 1))
        scopes->functions[scopes->function_count++] = (struct dwarf_scoped){offset, scope};
}

static uint32_t scope_of(const struct dwarf_scopes *scopes, uint64_t offset) {
    uint32_t low = 0, high = scopes->function_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scopes->functions[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < scopes->function_count && scopes->functions[low].offset == offset;
    return found ? scopes->functions[low].scope : DWARF_NO_SCOPE;
}

void dwarf_scopes_path(const struct dwarf_scopes *scopes, uint64_t offset,
                       struct dwarf_scope_path *path) {
    uint32_t scope = scope_of(scopes, offset);
    path->count = 0;
    path->function = 0;
    while (scope != DWARF_NO_SCOPE && !path->function) {
        const struct dwarf_scope *item = &scopes->items[scope];
        if (path->count == DWARF_SCOPE_DEPTH) {
            path->count = 0;
            return;
        }
        path->function = item->function;
        if (!item->function)
            path->items[path->count++] = item;
        scope = item->parent;
    }
}

void dwarf_scopes_clear(struct dwarf_scopes *scopes) {
    scopes->count = 0;
    scopes->function_count = 0;
}

void dwarf_scopes_finish(struct dwarf_scopes *scopes) {
    free(scopes->items);
    free(scopes->functions);
    *scopes = (struct dwarf_scopes){0};
}
