/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtraces as a page of text: what `sonde threads` prints and /task_backtraces answers. Any
 * thread. */
#ifndef SONDE_SERVICE_RPC_METHODS_BACKTRACES_TEXT_H
#define SONDE_SERVICE_RPC_METHODS_BACKTRACES_TEXT_H

#include "service/engine/backtraces/backtraces.h"

/* Appends it: UTF-8, lines without control characters. */
void rpc_backtraces_text(const struct engine_backtraces *from, struct sonde_buf *out);

#endif
