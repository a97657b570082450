/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of all threads as a profile: one sample per stack and thread name, whose value is the
 * number of threads. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_THREADS_BACKTRACES_PROFILE_H
#define SONDE_SERVICE_RPC_THREADS_BACKTRACES_PROFILE_H

#include "service/engine/backtraces/backtraces.h"

/* With by_start_function, a sample's only frame is the function that its threads were started with.
 * A thread without a stack has the frame "[no stack]". The caller destroys *profile. Errors: those
 * of adding to a profile. */
SONDE_MUST_USE sonde_err rpc_backtraces_profile(const struct engine_backtraces *backtraces,
                                                bool by_start_function,
                                                struct sonde_profile **profile);

#endif
