/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk from each thread follows `next` and marks what it visits with its own number, until it
 * meets a mark. If that is its own, the walk has closed a circle. Since every thread is marked
 * once, all walks together are linear. */
#include "service/engine/backtraces/lock_circles.h"

/* Copies the circle that contains `first`, from its lowest thread on. */
static void copy_circle(const uint32_t *next, uint32_t first, uint32_t *to,
                        struct engine_deadlock *circle) {
    uint32_t lowest = first;
    for (uint32_t at = next[first]; at != first; at = next[at])
        lowest = at < lowest ? at : lowest;
    *circle = (struct engine_deadlock){to, 0};
    uint32_t at = lowest;
    do {
        to[circle->count++] = at;
        at = next[at];
    } while (at != lowest);
}

bool lock_circles_find(const uint32_t *next, uint32_t count, struct sonde_arena *arena,
                       struct lock_circles *found) {
    uint32_t *marks = sonde_arena_alloc(arena, (count + 1ul) * sizeof *marks); /* 0 = none */
    uint32_t *threads = sonde_arena_alloc(arena, (count + 1ul) * sizeof *threads);
    struct engine_deadlock *circles = sonde_arena_alloc(arena, (count + 1ul) * sizeof *circles);
    *found = (struct lock_circles){circles, 0};
    if (!marks || !threads || !circles)
        return false;
    for (uint32_t start = 0; start < count; start++) {
        uint32_t at = start;
        while (at < count && marks[at] == 0) {
            marks[at] = start + 1;
            at = next[at];
        }
        if (at >= count || marks[at] != start + 1)
            continue;
        struct engine_deadlock *circle = &circles[found->count++];
        copy_circle(next, at, threads, circle);
        threads += circle->count;
    }
    return true;
}
