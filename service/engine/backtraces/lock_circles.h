/* SPDX-License-Identifier: Apache-2.0
 *
 * Circles among threads of which each waits for at most one other: deadlocks. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_ENGINE_BACKTRACES_LOCK_CIRCLES_H
#define SONDE_SERVICE_ENGINE_BACKTRACES_LOCK_CIRCLES_H

#include "service/engine/backtraces/backtraces.h"

#define LOCK_CIRCLE_END UINT32_MAX /* waits for no thread */

struct lock_circles {
    struct engine_deadlock *circles;
    uint32_t count;
};

/* Finds all circles; next[i] is the thread that thread i waits for. A circle begins with its lowest
 * number. Takes linear time. The result is in the arena. False: out of memory. */
bool lock_circles_find(const uint32_t *next, uint32_t count, struct sonde_arena *arena,
                       struct lock_circles *found);

#endif
