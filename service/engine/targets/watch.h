/* SPDX-License-Identifier: Apache-2.0
 *
 * Notifies the watches of a change. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_TARGETS_WATCH_H
#define SONDE_SERVICE_ENGINE_TARGETS_WATCH_H

#include "service/engine/core/engine_state.h"

void watch_notify(struct engine *engine, bool attached, const struct engine_target *info);

#endif
