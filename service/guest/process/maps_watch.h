/* SPDX-License-Identifier: Apache-2.0
 *
 * When the maps are to be read again. Reading them costs the kernel a path for every mapping, in a
 * process that does nothing most of what a capture costs. So while it runs the sizes of the address
 * space (/proc/self/statm, one short line) are looked at instead, and only a change of them, a pc
 * in no module, a closed library, or ten seconds lead to a reading. What has equal sizes before and
 * after (a library in the place of another) is found by one of the last three. Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_MAPS_WATCH_H
#define SONDE_SERVICE_GUEST_PROCESS_MAPS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define MAPS_WATCH_LOOK_NS  500000000ll   /* between two looks at the sizes while ticks run */
#define MAPS_WATCH_KEEP_NS  10000000000ll /* between two readings of what did not change */
#define MAPS_WATCH_MISS_NS  50000000ll    /* at least, from a reading to one for a miss */
#define MAPS_WATCH_CLOSE_NS 20000000ll    /* and to one for a closed library */
#define MAPS_WATCH_PATIENCE 50 /* reading takes at most one part in so many of the time */

struct maps_watch {
    int64_t look_ns, sure_ns, missed_ns, closed_ns; /* when each is due */
    uint64_t pages, data_pages;                     /* before the last reading; 0 = not known */
};

/* The next moment for what is looked at now and then, after `now`: the same for all, so that they
 * wake the control thread together. */
static inline int64_t maps_watch_next(int64_t now) {
    return (now / MAPS_WATCH_LOOK_NS + 1) * MAPS_WATCH_LOOK_NS;
}

/* What asks for a reading. */
struct maps_reasons {
    bool missed, closed, running;
};

/* The maps are about to be read: what changes meanwhile shows at the next look. */
void maps_watch_before(struct maps_watch *watch);
/* They were read, which ended at `now` and cost so much CPU time. */
void maps_watch_begin(struct maps_watch *watch, int64_t now, int64_t cost_ns,
                      struct maps_reasons reasons);
/* When to call maps_watch_wants next. */
int64_t maps_watch_due(const struct maps_watch *watch, struct maps_reasons reasons);
/* Whether to read them now. */
bool maps_watch_wants(struct maps_watch *watch, int64_t now, struct maps_reasons reasons);

#endif
