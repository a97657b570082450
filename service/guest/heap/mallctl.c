/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/mallctl.h"

#include "service/guest/libc.h"
#include "service/guest/maps/maps.h"

#include <errno.h>

typedef int mallctl_function(const char *name, void *old, size_t *old_bytes, void *value,
                             size_t bytes);

static mallctl_function *control;
static const char *symbol = "";

static bool is_code(uint64_t address) {
    static struct maps maps;
    bool found = false;
    if (maps_init(&maps) == 0 && maps_read(&maps) == 0)
        for (uint32_t i = 0; i < maps.module_count && !found; i++)
            found = address >= maps.modules[i].start && address < maps.modules[i].end;
    maps_finish(&maps);
    return found;
}

bool mallctl_find(uint64_t address) {
    static const char *const names[] = {"mallctl", "je_mallctl", "_rjem_mallctl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !control; i++) {
        control = (mallctl_function *)libc_find(names[i]);
        symbol = control ? names[i] : "";
    }
    if (!control && address && is_code(address)) {
        control = (mallctl_function *)address;
        symbol = "symbol table";
    }
    return control != NULL;
}

const char *mallctl_symbol(void) {
    return symbol;
}

const void *mallctl_address(void) {
    return (const void *)control;
}

static int call(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes) {
    return control ? control(name, old, old_bytes, value, bytes) : ENOSYS;
}

bool mallctl_has(const char *name) {
    return call(name, NULL, NULL, NULL, 0) == EINVAL;
}

int mallctl_get_bool(const char *name, bool *value) {
    size_t bytes = sizeof *value;
    return call(name, value, &bytes, NULL, 0);
}

int mallctl_set_bool(const char *name, bool value) {
    return call(name, NULL, NULL, &value, sizeof value);
}

int mallctl_get_size(const char *name, size_t *value) {
    size_t bytes = sizeof *value;
    return call(name, value, &bytes, NULL, 0);
}

int mallctl_set_size(const char *name, size_t value) {
    return call(name, NULL, NULL, &value, sizeof value);
}

int mallctl_set_text(const char *name, const char *value) {
    return call(name, NULL, NULL, &value, sizeof value);
}

int mallctl_swap(const char *name, void *value, void **old) {
    size_t bytes = sizeof *old;
    return call(name, old, &bytes, &value, sizeof value);
}

int mallctl_get_pointer(const char *name, void **value) {
    size_t bytes = sizeof *value;
    return call(name, value, &bytes, NULL, 0);
}

int mallctl_set_pointer(const char *name, void *value) {
    return call(name, NULL, NULL, &value, sizeof value);
}

int mallctl_exchange(const char *name, const void *value, size_t bytes, void **result) {
    size_t result_bytes = sizeof *result;
    return call(name, result, &result_bytes, (void *)value, bytes);
}
