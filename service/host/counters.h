/* SPDX-License-Identifier: Apache-2.0
 *
 * Which counted events this machine has, found by opening each of them. For `sonde events` and
 * GetInfo. */
#ifndef SONDE_SERVICE_HOST_COUNTERS_H
#define SONDE_SERVICE_HOST_COUNTERS_H

#include "api/profile/event.h"

#define HOST_COUNTERS (SONDE_EVENTS - SONDE_COUNTED)

struct host_counter {
    enum sonde_event_id event;
    bool is_available;
    /* Why it is refused, what the kernel said and to which capabilities; of an available one, what
     * is missing. "" = nothing. */
    char reason[256];
};

struct sampler;

/* HOST_COUNTERS rows, each tried now; with the sampler's capabilities if there is one. Takes some
 * milliseconds; any thread. */
void host_counters_read(struct sampler *sampler, struct host_counter counters[HOST_COUNTERS]);

#endif
