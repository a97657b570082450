/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when to read /proc/self/maps again. The kernel formats a path for every mapping, which in
 * an idle process costs more than the rest of a capture. So a running capture reads the sizes of
 * the address space instead (/proc/self/statm, one short line). It reads the maps when the sizes
 * have changed, after a pc outside all modules, after a dlclose, and every ten seconds in any case.
 * The last three catch a library that took the place of another of equal size. Times are
 * CLOCK_MONOTONIC in ns. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_MAPS_MAPS_WATCH_H
#define SONDE_SERVICE_GUEST_MAPS_MAPS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define MAPS_WATCH_LOOK_NS  500000000ll   /* between two looks at the sizes during a capture */
#define MAPS_WATCH_KEEP_NS  10000000000ll /* between two readings when nothing changes */
#define MAPS_WATCH_MISS_NS  50000000ll    /* at least, from a reading to one for a miss */
#define MAPS_WATCH_CLOSE_NS 20000000ll    /* at least, from a reading to one for a dlclose */
#define MAPS_WATCH_PATIENCE 50            /* reading takes at most 1/50 of the time */

struct maps_watch {
    int64_t look_ns, sure_ns, missed_ns, closed_ns; /* when each is due */
    uint64_t pages, data_pages;                     /* before the last reading; 0 = not known */
};

/* The next tick of a grid of MAPS_WATCH_LOOK_NS after `now`. All periodic work of the control
 * thread uses this grid, so that it wakes up once for all of it. */
static inline int64_t maps_watch_next(int64_t now) {
    return (now / MAPS_WATCH_LOOK_NS + 1) * MAPS_WATCH_LOOK_NS;
}

/* Reasons to read the maps. */
struct maps_reasons {
    bool missed;  /* a walk met a pc outside all modules */
    bool closed;  /* dlclose was called */
    bool running; /* a capture runs, so the sizes are worth looking at */
};

/* Called right before the maps are read: a change during the reading shows at the next look. */
void maps_watch_before(struct maps_watch *watch);
/* Called after the reading, which ended at `now` and took cost_ns of CPU time. */
void maps_watch_begin(struct maps_watch *watch, int64_t now, int64_t cost_ns,
                      struct maps_reasons reasons);
/* When to call maps_watch_wants next. */
int64_t maps_watch_due(const struct maps_watch *watch, struct maps_reasons reasons);
/* Whether to read the maps now. */
bool maps_watch_wants(struct maps_watch *watch, int64_t now, struct maps_reasons reasons);

#endif
