/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds mallctl in a program with a statically linked jemalloc. The guest's dlsym only sees
 * exported symbols; the file's symbol table has the others, unless it was stripped. Thread safety:
 * a worker. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H
#define SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H

#include "service/engine/core/engine_state.h"
#include "service/process/process_identity.h"

struct found_mallctl {
    uint64_t address; /* in the process; 0 = not found */
    const char *name; /* static text; "" = not found */
    bool is_stripped; /* not found, but the program contains a jemalloc: its messages are there */
};
void heap_find_mallctl(struct engine *engine, const struct process_identity *process,
                       struct found_mallctl *found);

#endif
