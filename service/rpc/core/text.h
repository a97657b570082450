/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside, made fit for a protobuf string: clients in several languages refuse messages
 * whose strings are not UTF-8. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_CORE_TEXT_H
#define SONDE_SERVICE_RPC_CORE_TEXT_H

#include "api/bytes.h"

/* The text itself when it is UTF-8, otherwise a copy in the arena with every other byte as \xNN.
 * NULL gives "". Never NULL: out of memory gives "". */
const char *rpc_text(struct sonde_arena *arena, const char *text);
/* The same into a caller's memory, cut to fit at a character's end. */
void rpc_text_copy(char *out, size_t size, const char *text);

#endif
