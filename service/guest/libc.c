/* SPDX-License-Identifier: Apache-2.0
 *
 * From glibc 2.34 on, everything is in libc.so.6, which keeps dlsym's first version as well. In an
 * older glibc dlsym is in libdl. If the program has not loaded that library, two internal functions
 * of libc load it, and libpthread; newer glibcs lack the two. All three are weak references, so
 * that each libc has what it needs. */
#include "service/guest/libc.h"

#include <stdatomic.h>
#include <stddef.h>

/* dlopen's own flag, which callers of the internal function add themselves. */
#define INTERNAL_FLAG 0x80000000u

/* The oldest version that glibc has on this machine. */
#ifdef __aarch64__
#define FIRST_VERSION "GLIBC_2.17"
#else
#define FIRST_VERSION "GLIBC_2.2.5"
#endif

typedef void *symbol_search(void *library, const char *name);

extern symbol_search first_dlsym __attribute__((weak));
__asm__(".symver first_dlsym, dlsym@" FIRST_VERSION);

extern void *__libc_dlopen_mode(const char *name, int mode) __attribute__((weak));
extern symbol_search __libc_dlsym __attribute__((weak));

static _Atomic(symbol_search *) search;
static struct libc_functions functions;
static _Atomic bool is_complete;

/* The library stays loaded, as if the program needed it. */
static void *load(const char *name) {
    return __libc_dlopen_mode
               ? __libc_dlopen_mode(name, (int)(RTLD_NOW | RTLD_GLOBAL | INTERNAL_FLAG))
               : NULL;
}

static symbol_search *find_search(void) {
    if (first_dlsym)
        return first_dlsym;
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

void *libc_find_next(const char *name) {
    symbol_search *found = get_search();
    return found ? found(RTLD_NEXT, name) : NULL;
}

void *libc_find(const char *name) {
    symbol_search *found = get_search();
    return found ? found(RTLD_DEFAULT, name) : NULL;
}

__attribute__((constructor(101))) static void find_functions(void) {
    bool has_all = true;
    if (!libc_find_next("pthread_create"))
        (void)load("libpthread.so.0");
#define FIND(name)  functions.name = (__typeof__(functions.name))libc_find_next(#name);
#define CHECK(name) has_all = has_all && functions.name;
    LIBC_FUNCTIONS(FIND)
    LIBC_FUNCTIONS(CHECK)
    FIND(pthread_getattr_default_np)
    atomic_store(&is_complete, has_all);
}

const struct libc_functions *libc_functions(void) {
    if (!atomic_load(&is_complete))
        find_functions();
    return atomic_load(&is_complete) ? &functions : NULL;
}
