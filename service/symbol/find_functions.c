/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/store.h"

#include <string.h>

#define MAX_SYMBOLS 65536u /* a library of that many is not searched */

static bool is_one(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

size_t symbol_module_find_functions(struct symbol_module *module, const char *const *names,
                                    size_t name_count, struct symbol_place *places, size_t room) {
    struct loaded_symbols *symbols = module->is_flat ? NULL : symbol_module_symbols(module);
    size_t found = 0;
    if (!symbols || symbols->table.header->symbol_count > MAX_SYMBOLS)
        return 0;
    for (uint32_t i = 0; i < symbols->table.header->symbol_count && found < room; i++) {
        const char *name = symbol_table_name(&symbols->table, i);
        if (is_one(name, names, name_count))
            places[found++] = (struct symbol_place){
                symbols->table.header->base + symbols->table.symbols[i].start, name};
    }
    return found;
}
