/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that name code without a file share. A module's lock protects its names. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_JIT_NAMES_H
#define SONDE_SERVICE_SYMBOL_JIT_JIT_NAMES_H

#include "service/symbol/store.h"
#include "service/symbol/symtab/collect_symbols.h"

/* Builds a table for each window of addresses that fits in 32 bits. The caller releases the result.
 * NULL when out of memory. */
struct symbol_jit *symbol_jit_build(struct symbol_collection *collection);

/* Reads kallsyms, if it was not read yet, or if the address is in code that comes and goes and the
 * last look is not recent. */
void symbol_kernel_read(struct symbol_module *module, uint64_t address);

#endif
