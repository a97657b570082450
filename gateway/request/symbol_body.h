/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a symbol request: addresses joined by '+', as jeprof and pprof send them. Thread
 * safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_SYMBOL_BODY_H
#define SONDE_GATEWAY_REQUEST_SYMBOL_BODY_H

#include "api/bytes.h"

/* Removes the next address from the front of *body; false if there is none. An address is
 * hexadecimal and not zero, with at most 16 digits after leading zeros, an optional "0x" and
 * optional spaces around it. Anything else between two '+' is skipped. */
bool symbol_body_next(struct sonde_slice *body, uint64_t *address);

/* Appends a function name for an answer line. Control characters become spaces. "--" becomes "- -",
 * because "--" separates inlined functions. */
void symbol_body_append_name(struct sonde_buf *out, const char *name);

#endif
