/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by symbolize.c, which names addresses of a target, and symbol_files.c, which names
 * addresses in files. Thread safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_SYMBOLS_SYMBOLIZE_H
#define SONDE_SERVICE_ENGINE_SYMBOLS_SYMBOLIZE_H

#include "service/engine/core/engine_state.h"
#include "service/process/process_identity.h"
#include "service/symbol/symbol.h"

/* Sets the fields that depend only on the module. */
void symbolize_module(struct engine_symbol *symbol, struct symbol_module *module);
/* Adds the names to `symbols`, whose modules are set, and calls on_answer; does not call it when it
 * returns an error. */
SONDE_MUST_USE sonde_err symbolize_answer(struct engine *engine, const struct symbol_query *queries,
                                          struct engine_symbol *symbols, size_t count,
                                          engine_on_symbols *on_answer, void *context);

#endif
