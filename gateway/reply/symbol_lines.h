/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a symbol request: one line per address, "0x10 inner--outer". Thread safety: any
 * thread. */
#ifndef SONDE_GATEWAY_REPLY_SYMBOL_LINES_H
#define SONDE_GATEWAY_REPLY_SYMBOL_LINES_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Appends one line per address, in order. Older services ignore names_only, so both forms of the
 * response are read. outermost: only the function that contains the code, without the functions
 * inlined into it. */
void symbol_lines_append(struct sonde_buf *out, const uint64_t *addresses, size_t count,
                         const Sonde__V1__SymbolizeResponse *response, bool outermost);

#endif
