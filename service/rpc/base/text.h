/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts text from outside to valid UTF-8 for protobuf strings, because clients in several
 * languages reject messages with other strings. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_BASE_TEXT_H
#define SONDE_SERVICE_RPC_BASE_TEXT_H

#include "api/bytes.h"

/* Returns the text itself if it is UTF-8, otherwise a copy in the arena with each invalid byte
 * written as \xNN. Returns "" for NULL and when out of memory, never NULL. */
const char *rpc_text(struct sonde_arena *arena, const char *text);
/* The same into the caller's memory, cut between characters if it does not fit. */
void rpc_text_copy(char *out, size_t size, const char *text);

#endif
