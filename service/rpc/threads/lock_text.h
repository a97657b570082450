/* SPDX-License-Identifier: Apache-2.0
 *
 * What blocked threads wait for, and deadlocks, in sentences:
 *
 *     waits for mutex shop::orders (0x55d0c1a04080), held by 4712 worker-2
 *     deadlock: 4711 worker-1 → 4712 worker-2 → 4711 worker-1; 4711 waits for mutex ...
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_THREADS_LOCK_TEXT_H
#define SONDE_SERVICE_RPC_THREADS_LOCK_TEXT_H

#include "service/engine/backtraces/backtraces.h"

/* Readable names, by thread, of the variable that it waits for and the function that waits. */
struct rpc_lock_names {
    const char **variables, **functions;
};

/* In the arena. False: out of memory. */
bool rpc_lock_names_init(struct rpc_lock_names *names, const struct engine_backtraces *from,
                         struct sonde_arena *arena);
/* Appends the sentence of a thread, in one line without a newline; nothing if it waits for no lock.
 */
void rpc_lock_wait_text(const struct engine_backtraces *from, uint32_t thread,
                        const struct rpc_lock_names *names, struct sonde_buf *out);
/* The number of lines about deadlocks: at most RPC_MAX_DEADLOCKS, and one for the others. */
#define RPC_MAX_DEADLOCKS 64u
uint32_t rpc_deadlock_lines(const struct engine_backtraces *from);
/* Appends one of these lines, without a newline. */
void rpc_deadlock_line(const struct engine_backtraces *from, uint32_t line,
                       const struct rpc_lock_names *names, struct sonde_buf *out);
/* Appends the sentence of a deadlock. */
void rpc_deadlock_text(const struct engine_backtraces *from, const struct engine_deadlock *deadlock,
                       const struct rpc_lock_names *names, struct sonde_buf *out);

#endif
