/* SPDX-License-Identifier: Apache-2.0
 *
 * Where mallctl is in a program that has jemalloc linked into it: the guest's dlsym sees only what
 * is exported, the file's symbol table has the rest. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H
#define SONDE_SERVICE_ENGINE_HEAP_FIND_MALLCTL_H

#include "service/engine/engine_state.h"

/* Its address in the process, 0 = not found; *name is then "". */
uint64_t heap_find_mallctl(struct engine *engine, pid_t pid, const char **name);

#endif
