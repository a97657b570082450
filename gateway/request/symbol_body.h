/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a symbol request: addresses joined by '+', as jeprof, pprof and people send them.
 * Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_SYMBOL_BODY_H
#define SONDE_GATEWAY_REQUEST_SYMBOL_BODY_H

#include "api/bytes.h"

/* Takes pieces off the front of *body until one is an address: hexadecimal, "0x" optional, not
 * zero, at most 16 digits after leading zeros, blanks around it allowed. Other pieces are skipped.
 * False when the body is used up. */
bool symbol_body_next(struct sonde_slice *body, uint64_t *address);

/* A name as it stands in a symbol line: control characters are blanks, and "--", which separates
 * inlined functions, is written "- -". */
void symbol_body_append_name(struct sonde_buf *out, const char *name);

#endif
