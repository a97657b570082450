/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/dwarf/scopes.h"

#include "service/symbol/dwarf/constants.h"
#include "service/symbol/dwarf/unit.h"

#include <stdlib.h>

#define MAX_DEPTH 64

static bool reserve(void **items, uint32_t count, uint32_t *capacity, size_t item_size) {
    if (count < *capacity)
        return true;
    uint32_t wider = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(*items, wider * item_size);
    if (!moved)
        return false;
    *items = moved;
    *capacity = wider;
    return true;
}

uint32_t dwarf_scopes_add(struct dwarf_scopes *scopes, const struct dwarf_unit *unit,
                          const struct dwarf_die *die, uint32_t parent) {
    if (!reserve((void **)&scopes->items, scopes->count, &scopes->capacity, sizeof *scopes->items))
        return DWARF_NO_SCOPE;
    const char *name = dwarf_die_string(unit, die, SLOT_NAME);
    if (!name)
        name = die->abbrev->tag == TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
    scopes->items[scopes->count] = (struct dwarf_scope){parent, name};
    return scopes->count++;
}

void dwarf_scopes_add_function(struct dwarf_scopes *scopes, uint64_t offset, uint32_t scope) {
    if (reserve((void **)&scopes->functions, scopes->function_count, &scopes->function_capacity,
                sizeof *scopes->functions))
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

void dwarf_scopes_text(const struct dwarf_scopes *scopes, uint64_t offset, char *text,
                       size_t size) {
    const char *path[MAX_DEPTH];
    size_t depth = 0, used = 0;
    uint32_t scope = scope_of(scopes, offset);
    for (; scope != DWARF_NO_SCOPE && depth < MAX_DEPTH; scope = scopes->items[scope].parent)
        path[depth++] = scopes->items[scope].name;
    bool fits = scope == DWARF_NO_SCOPE;
    while (depth-- > 0 && fits) {
        size_t len = strlen(path[depth]);
        fits = len + 3 <= size - used;
        if (!fits)
            break;
        memcpy(text + used, path[depth], len);
        memcpy(text + used + len, "::", 2);
        used += len + 2;
    }
    text[fits ? used : 0] = 0;
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
