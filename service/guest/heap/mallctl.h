/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's mallctl: finding it, and reading and writing one name. Only this module calls it. A
 * jemalloc built with a prefix exports the function under another name; the names in its tree are
 * the same. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_MALLCTL_H
#define SONDE_SERVICE_GUEST_HEAP_MALLCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks for mallctl by its exported names, then takes `address` (0 = none) if it is in an
 * executable mapping. True when it is known, now or from an earlier call. */
bool mallctl_find(uint64_t address);
/* How it was found: "mallctl", "je_mallctl", "_rjem_mallctl" or "symbol table"; "" = not found. */
const char *mallctl_symbol(void);
/* The function itself; NULL = not found. */
const void *mallctl_address(void);
/* Whether the allocator has this name, which cannot be called without arguments. */
bool mallctl_has(const char *name);

/* Each returns 0 or an errno: ENOSYS without jemalloc, ENOENT for a name that does not exist or
 * needs prof:true. */
int mallctl_get_bool(const char *name, bool *value);
int mallctl_set_bool(const char *name, bool value);
int mallctl_get_size(const char *name, size_t *value);
int mallctl_set_size(const char *name, size_t value);
int mallctl_set_text(const char *name, const char *value);
int mallctl_get_pointer(const char *name, void **value);
/* Sets a pointer and returns the previous one in *old. */
int mallctl_swap(const char *name, void *value, void **old);
int mallctl_set_pointer(const char *name, void *value);
/* Passes a struct and returns a pointer in *result. */
int mallctl_exchange(const char *name, const void *value, size_t bytes, void **result);

#endif
