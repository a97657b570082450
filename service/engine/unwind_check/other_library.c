/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/unwind_check/other_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define TEXT(name)          #name
#define EXPANDED_TEXT(name) TEXT(name)
#define SYMBOL(field, function) \
    { offsetof(struct other_library, field), EXPANDED_TEXT(UNW_OBJ(function)) }

static const struct {
    size_t at;
    const char *name;
} symbols[] = {
    SYMBOL(create_space, create_addr_space),
    SYMBOL(destroy_space, destroy_addr_space),
    SYMBOL(set_caching_policy, set_caching_policy),
    SYMBOL(flush_cache, flush_cache),
    SYMBOL(init_remote, init_remote),
    SYMBOL(step, step),
    SYMBOL(get_reg, get_reg),
    SYMBOL(get_save_loc, get_save_loc),
    SYMBOL(strerror, strerror),
    SYMBOL(search_table, dwarf_search_unwind_table),
};

const struct other_library *other_library(void) {
    static struct other_library library;
    static bool is_loaded;
    void *handle = is_loaded ? NULL : dlopen("libunwind-x86_64.so.8", RTLD_NOW | RTLD_LOCAL);
    if (!is_loaded && !handle)
        return NULL;
    for (size_t i = 0; !is_loaded && i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return NULL;
        memcpy((char *)&library + symbols[i].at, &address, sizeof address);
    }
    is_loaded = true;
    return &library;
}
