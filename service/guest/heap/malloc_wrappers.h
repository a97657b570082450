/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in the place of malloc and its family while allocations are sampled. Each is the real
 * function behind one comparison: an allocation asks the sampler, a free the filter of samples; the
 * rest is a jump to the real one, which patch.h has found.
 *
 * They are exported under no name: imports of the modules are patched to point here, and pointers
 * that a program took meanwhile go on working after the imports are put back, since this library
 * stays loaded. Thread and signal safety: as the real function. */
#ifndef SONDE_SERVICE_GUEST_HEAP_MALLOC_WRAPPERS_H
#define SONDE_SERVICE_GUEST_HEAP_MALLOC_WRAPPERS_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

typedef void stand_in_function(void);

struct stand_in {
    const char *name;
    stand_in_function *ours;
    stand_in_function **real; /* NULL: it calls others of this table */
};

extern const struct stand_in stand_ins[];
extern const size_t stand_in_count;

#pragma GCC visibility pop

#endif
