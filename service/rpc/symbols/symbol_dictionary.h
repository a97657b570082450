/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionary of a SymbolizeStream: the strings, functions and modules that its client has
 * received, and the packing of answers into messages that refer to them. Thread safety: one thread
 * at a time. */
#ifndef SONDE_SERVICE_RPC_SYMBOLS_SYMBOL_DICTIONARY_H
#define SONDE_SERVICE_RPC_SYMBOLS_SYMBOL_DICTIONARY_H

#include "api/error.h"
#include "service/engine/engine.h"
#include "service/rpc/base/dictionary.h"

#include <grpc/slice.h>

#define SYMBOL_TABLES_LIMIT      ((size_t)64 << 20)
#define SYMBOL_TABLES_PART       ((size_t)512 << 10) /* approximate size of a message */
#define SYMBOL_TABLES_ADDRESSES  8192u               /* per message */
#define SYMBOL_TABLES_MAX_FRAMES 64u                 /* per address */

struct symbol_tables {
    struct dictionary strings, functions, modules;
};
void symbol_tables_init(struct symbol_tables *tables, size_t limit_bytes);
void symbol_tables_finish(struct symbol_tables *tables);

struct symbol_parts {
    grpc_slice *items;
    size_t count, capacity;
};
void symbol_parts_finish(struct symbol_parts *parts, size_t from); /* unrefs items from there on */

/* All answers of a batch as messages, at least one. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_tables_pack(struct symbol_tables *tables,
                                            const struct engine_symbol *symbols, size_t count,
                                            struct symbol_parts *parts);

#endif
