/* SPDX-License-Identifier: Apache-2.0
 *
 * libsonde.so must load in every glibc from 2.17 on, so it refers to no newer version of a name
 * (tests/lint/guest_libc_test.sh checks that). Before glibc 2.34, dlsym, dladdr and most of
 * pthread_* are in libdl and libpthread, which the program may not have loaded. If we depended on
 * these libraries, a program would not start where they are missing. So they are loaded when the
 * guest is, and their functions are looked up. If they are missing, the guest stays off.
 *
 * It must also load in musl, where LD_PRELOAD may name it for a whole container: names that only
 * glibc has are weak references (LIBC_WEAK), the guest stays off, and the hooks call musl's
 * functions.
 *
 * Newer functions that only make a system call are replaced by that call (raw.h). Any thread. */
#ifndef SONDE_SERVICE_GUEST_LIBC_H
#define SONDE_SERVICE_GUEST_LIBC_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#define LIBC_FUNCTIONS(ROW)        \
    ROW(dladdr)                    \
    ROW(pthread_attr_getguardsize) \
    ROW(pthread_attr_getstack)     \
    ROW(pthread_attr_getstacksize) \
    ROW(pthread_attr_setstacksize) \
    ROW(pthread_join)              \
    ROW(pthread_key_create)        \
    ROW(pthread_setspecific)

struct libc_functions {
#define LIBC_MEMBER(name) __typeof__(name) *name;
    LIBC_FUNCTIONS(LIBC_MEMBER)
#undef LIBC_MEMBER
    __typeof__(pthread_getattr_default_np) *pthread_getattr_default_np; /* NULL before glibc 2.18 */
};

#define LIBC_WEAK __attribute__((weak))

/* What the compiler makes of memmove, in this file and all that include it. */
__asm__(".weak __memmove_chk");

/* False in musl. */
bool libc_is_glibc(void);

/* The functions, or NULL if one of them is missing. They are looked up when libsonde.so is loaded;
 * after that, this takes no lock. */
const struct libc_functions *libc_functions(void);

/* dlsym(RTLD_NEXT, name): the definition that ours replaces. NULL if there is none. */
void *libc_find_next(const char *name);

/* dlsym(RTLD_DEFAULT, name) */
void *libc_find(const char *name);

#endif
