/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's control tree, the one door to it: where its mallctl is, and reading and writing one
 * name. Builds with a prefix have another name for the function, not for what is in the tree.
 * Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_ALLOCATOR_H
#define SONDE_SERVICE_GUEST_HEAP_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks for it: by name, then `address` (0 = none), which must lie in an executable mapping of the
 * process. True when there is one. Any number of times; what was found stays. */
bool allocator_find(uint64_t address);
/* "mallctl", "je_mallctl", "_rjem_mallctl", "symbol table"; "" = not found. */
const char *allocator_symbol(void);

/* 0 or an errno: ENOENT when the name is not there, or not without prof:true. ENOSYS: no
 * jemalloc. */
int allocator_get_bool(const char *name, bool *value);
int allocator_set_bool(const char *name, bool value);
int allocator_get_size(const char *name, size_t *value);
int allocator_set_size(const char *name, size_t value);
int allocator_set_text(const char *name, const char *value);
/* A pointer that is exchanged: *old is what was there. */
int allocator_swap(const char *name, void *value, void **old);
int allocator_get_pointer(const char *name, void **value);

#endif
