/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the unnamed code of allocators. jeprof and google-pprof remove an allocator's frames by
 * name, so in the heap profile of a program with a stripped libjemalloc, such code would own
 * everything. Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_SYMBOLS_ALLOCATOR_CODE_H
#define SONDE_SERVICE_ENGINE_SYMBOLS_ALLOCATOR_CODE_H

#include "service/symbol/symbol.h"

#define ALLOCATOR_MODULES 4  /* of one batch; code of further ones gets no names */
#define ALLOCATOR_PLACES  16 /* functions per module */

struct allocator_code {
    struct {
        struct symbol_module *module;
        struct symbol_place places[ALLOCATOR_PLACES];
        size_t count;
    } modules[ALLOCATOR_MODULES];
    size_t count;
};

/* The exported function of the allocator that is nearest to the address, such as "malloc"; NULL if
 * the module is not an allocator, or exports none. Valid as long as the module. */
const char *allocator_code_name(struct allocator_code *code, const struct symbol_query *query);

#endif
