/* SPDX-License-Identifier: Apache-2.0
 *
 * What a module reports about its tables: whether better ones are on the way, and why answers have
 * less than functions, files and lines. */
#include "service/symbol/files/files.h"
#include "service/symbol/store.h"

const char symbol_converting[] = "CONVERTING";
const char symbol_fetching[] = "FETCHING";

bool symbol_module_is_converting(struct symbol_module *module) {
    if (module->is_flat)
        return false;
    lock_take(&module->lock);
    bool busy = module->lines_state == SYMBOL_BUILDING;
    lock_drop(&module->lock);
    return busy;
}

bool symbol_module_failure(struct symbol_module *module, char text[SYMBOL_SENTENCE]) {
    text[0] = 0;
    if (module->is_flat)
        return false;
    lock_take(&module->lock);
    symbol_failure_text(&module->failure, text);
    lock_drop(&module->lock);
    return text[0] != 0;
}

const char *symbol_module_shortfall(struct symbol_module *module) {
    if (module->is_flat || module->fd < 0)
        return symbol_reason_text(module->reason);
    lock_take(&module->lock);
    bool busy = module->lines_state != SYMBOL_READY;
    bool full = !busy && module->lines.table.header;
    bool nameless = module->symbols_state == SYMBOL_READY && !module->symbols.table.header &&
                    module->kind != SYMBOL_MODULE_NONE;
    lock_drop(&module->lock);
    if (full)
        return "";
    if (busy)
        return symbol_converting;
    if (symbol_module_has_dwarf(module))
        return module->store->worker ? "CONVERSION_FAILED" : "NO_CONVERTER";
    if (nameless)
        return "CONVERSION_FAILED";
    if (symbol_fetch_is_under_way(module->store->fetch, module->build_id))
        return symbol_fetching;
    return module->reason != SYMBOL_REASON_NONE ? symbol_reason_text(module->reason)
                                                : "NO_DEBUG_INFO";
}
