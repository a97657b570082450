/* SPDX-License-Identifier: Apache-2.0
 *
 * From glibc 2.34 on, everything is in libc.so.6, which keeps dlsym's first version as well. In an
 * older glibc dlsym is in libdl. If the program has not loaded that library, two internal functions
 * of libc load it, and libpthread; newer glibcs lack the two. All three are weak references, so
 * that each libc has what it needs. They have no version, because before glibc 2.30 a version that
 * libc.so.6 has not is an error even if the reference is weak. */
#include "service/guest/libc.h"

#include <stdatomic.h>
#include <stddef.h>

/* dlopen's own flag, which callers of the internal function add themselves. */
#define INTERNAL_FLAG 0x80000000u

typedef void *symbol_search(void *library, const char *name);

extern symbol_search any_dlsym LIBC_WEAK;
__asm__(".symver any_dlsym, dlsym@"); /* without a version */

extern void *__libc_dlopen_mode(const char *name, int mode) LIBC_WEAK;
extern symbol_search __libc_dlsym LIBC_WEAK;
extern const char *gnu_get_libc_version(void) LIBC_WEAK;

static _Atomic(symbol_search *) search;
static void *loaded[2]; /* libpthread and libdl, if they were out of reach */
static struct libc_functions functions;
static bool has_all;
static _Atomic bool is_prepared;

bool libc_is_glibc(void) {
    return gnu_get_libc_version != NULL;
}

/* The library stays loaded, as if the program needed it. */
static void *load(const char *name) {
    return __libc_dlopen_mode
               ? __libc_dlopen_mode(name, (int)(RTLD_NOW | RTLD_GLOBAL | INTERNAL_FLAG))
               : NULL;
}

static symbol_search *find_search(void) {
    if (any_dlsym)
        return any_dlsym;
    void *libdl = load("libdl.so.2");
    return libdl && __libc_dlsym ? (symbol_search *)__libc_dlsym(libdl, "dlsym") : NULL;
}

static symbol_search *get_search(void) {
    symbol_search *found = atomic_load(&search);
    if (!found) {
        found = find_search();
        atomic_store(&search, found);
    }
    return found;
}

/* RTLD_NEXT and RTLD_DEFAULT do not reach the two libraries from a library that was opened by
 * dlopen, so they are searched as well. */
static void *find(void *where, const char *name) {
    symbol_search *found = get_search();
    void *symbol = found ? found(where, name) : NULL;
    for (size_t i = 0; found && !symbol && i < sizeof loaded / sizeof loaded[0]; i++)
        symbol = loaded[i] ? found(loaded[i], name) : NULL;
    return symbol;
}

__attribute__((constructor(101))) static void prepare(void) {
    bool all = true;
    if (atomic_load(&is_prepared))
        return;
    if (!find(RTLD_NEXT, "pthread_create"))
        loaded[0] = load("libpthread.so.0");
    if (!find(RTLD_NEXT, "dlclose"))
        loaded[1] = load("libdl.so.2");
#define FIND(name)  functions.name = (__typeof__(functions.name))find(RTLD_DEFAULT, #name);
#define CHECK(name) all = all && functions.name;
    LIBC_FUNCTIONS(FIND)
    LIBC_FUNCTIONS(CHECK)
    FIND(pthread_getattr_default_np)
    has_all = all;
    atomic_store(&is_prepared, true);
}

void *libc_find_next(const char *name) {
    prepare();
    return find(RTLD_NEXT, name);
}

void *libc_find(const char *name) {
    prepare();
    return find(RTLD_DEFAULT, name);
}

const struct libc_functions *libc_functions(void) {
    prepare();
    return has_all ? &functions : NULL;
}
