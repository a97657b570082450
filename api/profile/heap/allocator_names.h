/* SPDX-License-Identifier: Apache-2.0
 *
 * Which code belongs to an allocator, by the names of functions and files. In a heap profile every
 * stack ends in such code, which says nothing about who holds the memory. Thread safety: any
 * thread. */
#ifndef SONDE_API_PROFILE_HEAP_ALLOCATOR_NAMES_H
#define SONDE_API_PROFILE_HEAP_ALLOCATOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a function only passes an allocation on to the allocator: malloc, operator new,
 * std::allocator<int>::allocate, alloc::alloc::alloc. `name` is demangled, with or without its
 * parameters. built_in: the allocator is linked into the program, so jemalloc's internal functions
 * also count; in another program they may be the program's own. */
bool sonde_allocator_has_function(const char *name, bool built_in);
/* Whether a path is the library of an allocator: libjemalloc*, libtcmalloc*, libmimalloc* or
 * libsonde*. */
bool sonde_allocator_is_library(const char *path);

/* The exported functions of allocators in C whose frames jeprof and google-pprof remove. */
extern const char *const sonde_allocator_exports[];
extern const size_t sonde_allocator_export_count;

#endif
