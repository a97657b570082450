/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that replace malloc and its family while allocations are sampled. Each makes one
 * comparison (an allocation asks the sampler, a free asks the filter of sampled blocks) and jumps
 * to the real function, which got_patch.h has found.
 *
 * They are not exported: got_patch.h writes their addresses into the imports of loaded objects. A
 * program may keep such a pointer, which still works after the imports are restored, since this
 * library is never unloaded. Thread and signal safety: as the real function. */
#ifndef SONDE_SERVICE_GUEST_HEAP_MALLOC_WRAPPERS_H
#define SONDE_SERVICE_GUEST_HEAP_MALLOC_WRAPPERS_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

typedef void malloc_function(void); /* of any signature */

struct malloc_wrapper {
    const char *name;
    malloc_function *wrapper;
    malloc_function **real; /* NULL: the wrapper calls other wrappers */
};

extern const struct malloc_wrapper malloc_wrappers[];
extern const size_t malloc_wrapper_count;

#pragma GCC visibility pop

#endif
