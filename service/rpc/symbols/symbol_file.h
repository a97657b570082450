/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry of the list of symbol files as a message. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_SYMBOLS_SYMBOL_FILE_H
#define SONDE_SERVICE_RPC_SYMBOLS_SYMBOL_FILE_H

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/symbol/files/files.h"

/* The strings are the file's: its name is not looked at (rpc_text). */
void rpc_symbol_file(const struct symbol_file *file, Sonde__V1__SymbolFile *message);

#endif
