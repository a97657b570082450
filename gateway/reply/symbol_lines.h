/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a symbol request: "0x10 inner--outer", a line each address. Thread safety: any
 * thread. */
#ifndef SONDE_GATEWAY_REPLY_SYMBOL_LINES_H
#define SONDE_GATEWAY_REPLY_SYMBOL_LINES_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Appends the lines of the addresses, in their order, whichever way the response tells the names:
 * a service that is older than we are does not know names_only. outermost: of inlined functions
 * only the one that holds the code. */
void symbol_lines_append(struct sonde_buf *out, const uint64_t *addresses, size_t count,
                         const Sonde__V1__SymbolizeResponse *response, bool outermost);

#endif
