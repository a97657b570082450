/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtraces as text: what `sonde threads` prints and /task_backtraces returns. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_RPC_THREADS_BACKTRACES_TEXT_H
#define SONDE_SERVICE_RPC_THREADS_BACKTRACES_TEXT_H

#include "service/engine/backtraces/backtraces.h"

/* Appends UTF-8 text without control characters other than newlines. */
void rpc_backtraces_text(const struct engine_backtraces *from, struct sonde_buf *out);

#endif
