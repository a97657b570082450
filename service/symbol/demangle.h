/* SPDX-License-Identifier: Apache-2.0
 *
 * A linkage name as people read it: clone suffixes folded (".isra.0", ".cold", ".llvm.123",
 * "@@V1"), C++ and Rust (both schemes) demangled by libiberty with bounds on input and output, and
 * cleaned so that it is valid UTF-8 without control characters, whatever the file held. Thread
 * safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DEMANGLE_H
#define SONDE_SERVICE_SYMBOL_DEMANGLE_H

#include "api/bytes.h"

/* A longer result is cut and ends in the marker. */
#define SYMBOL_NAME_MAX    4096u
#define SYMBOL_NAME_MARKER "...[cut]"

/* How much of a linkage name is its own; the rest is suffixes that compilers and linkers add.
 * "@plt" stays. */
size_t symbol_clone_base(const char *name, size_t len);

/* Appends the readable form of name, at most SYMBOL_NAME_MAX bytes. */
void symbol_demangle(const char *name, struct sonde_buf *to);
/* Appends name itself, cut and cleaned in the same way. */
void symbol_clean(const char *name, size_t len, struct sonde_buf *to);

#endif
