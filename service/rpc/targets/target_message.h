/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the engine's structs to messages. A message points into the arena or into the struct it
 * was made from. */
#ifndef SONDE_SERVICE_RPC_TARGETS_TARGET_MESSAGE_H
#define SONDE_SERVICE_RPC_TARGETS_TARGET_MESSAGE_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/engine.h"

/* NULL when out of memory. */
Sonde__V1__Target *rpc_target(struct sonde_arena *arena, const struct engine_target *target);
/* The causes whose count is not 0; *count is their number. */
Sonde__V1__Drop **rpc_drops(struct sonde_arena *arena, const struct engine_drop *drops,
                            size_t drop_count, size_t *count);

#endif
