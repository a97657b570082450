/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ways of asking for names share: those of a target (symbolize.c), those of files
 * (symbol_files.c). Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_SYMBOLIZE_H
#define SONDE_SERVICE_ENGINE_SYMBOLIZE_H

#include "service/engine/engine_state.h"

/* The executable mappings of a process now, with equal ones taken over from `known` (may be NULL).
 * NULL when they cannot be read. */
struct generation *symbolize_read_maps(pid_t pid, const struct generation *known);
/* Sets what a module says of itself. */
void symbolize_module(struct engine_symbol *symbol, struct symbol_module *module);
/* Names the queries, whose modules' facts are in `symbols` already, and answers. Calls on_answer
 * unless it fails. */
SONDE_MUST_USE sonde_err symbolize_answer(struct engine *engine, const struct symbol_query *queries,
                                          struct engine_symbol *symbols, size_t count,
                                          engine_on_symbols *on_answer, void *context);

#endif
