/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns linkage names into display names. Clone suffixes (".isra.0", ".cold", ".llvm.123") and
 * symbol versions ("@@V1") are removed. libiberty demangles C++, D and both of Rust's schemes, with
 * limits on input and output. The result is valid UTF-8 without control characters, whatever the
 * input was. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DEMANGLE_H
#define SONDE_SERVICE_SYMBOL_DEMANGLE_H

#include "api/bytes.h"

/* A longer result is cut, and ends in the marker. */
#define SYMBOL_NAME_MAX    4096u
#define SYMBOL_NAME_MARKER "...[cut]"

/* The length of a linkage name without the suffixes that compilers and linkers add. "@plt" counts
 * as part of the name. */
size_t symbol_clone_base(const char *name, size_t len);

/* Appends the demangled name, at most SYMBOL_NAME_MAX bytes. */
void symbol_demangle(const char *name, struct sonde_buf *to);
/* Appends the name without demangling it, cut and cleaned in the same way. */
void symbol_clean(const char *name, size_t len, struct sonde_buf *to);

#endif
