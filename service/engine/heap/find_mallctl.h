/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds mallctl in a program with a statically linked jemalloc. The guest's dlsym only sees
 * exported symbols; the file's symbol table has the others. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H
#define SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H

#include "service/engine/engine_state.h"
#include "service/process/process_identity.h"

/* The address in the process; 0 = not found, then *name is "". */
uint64_t heap_find_mallctl(struct engine *engine, const struct process_identity *process,
                           const char **name);

#endif
