/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/symbols/allocator_code.h"

#include "api/profile/heap/allocator_names.h"

/* The number of the module's entry; ALLOCATOR_MODULES = none. */
static size_t find(struct allocator_code *code, struct symbol_module *module) {
    size_t at = 0;
    while (at < code->count && code->modules[at].module != module)
        at++;
    if (at < code->count || at == ALLOCATOR_MODULES)
        return at;
    if (!sonde_allocator_is_library(symbol_module_base_name(module)))
        return ALLOCATOR_MODULES;
    code->modules[at].module = module;
    code->modules[at].count =
        symbol_module_find_functions(module, sonde_allocator_exports, sonde_allocator_export_count,
                                     code->modules[at].places, ALLOCATOR_PLACES);
    return code->count++;
}

static uint64_t distance(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

const char *allocator_code_name(struct allocator_code *code, const struct symbol_query *query) {
    size_t at = query->module ? find(code, query->module) : ALLOCATOR_MODULES;
    if (at == ALLOCATOR_MODULES || code->modules[at].count == 0)
        return NULL;
    const struct symbol_place *places = code->modules[at].places, *nearest = &places[0];
    for (size_t i = 1; i < code->modules[at].count; i++)
        if (distance(places[i].vaddr, query->vaddr) < distance(nearest->vaddr, query->vaddr))
            nearest = &places[i];
    return nearest->name;
}
