/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtraces as text: what `sonde threads` prints and /task_backtraces returns. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_RPC_THREADS_BACKTRACES_TEXT_H
#define SONDE_SERVICE_RPC_THREADS_BACKTRACES_TEXT_H

#include "service/engine/backtraces/backtraces.h"

/* Appends UTF-8 text without control characters other than newlines. readable_names: of functions,
 * see api/draw/names. */
void rpc_backtraces_text(const struct engine_backtraces *from, bool readable_names,
                         struct sonde_buf *out);

#endif
