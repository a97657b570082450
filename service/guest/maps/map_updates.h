/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the module map up to date. When maps_watch.h says so, it reads the maps; if the modules
 * have changed, it publishes a new generation and sends it to sonded, which answers with unwind
 * tables. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_MAPS_MAP_UPDATES_H
#define SONDE_SERVICE_GUEST_MAPS_MAP_UPDATES_H

#include "service/guest/maps/maps.h"

/* Allocates the memory; 0 or an errno. A second call does nothing. */
int map_updates_open(void);
/* The mappings as they were read last. Valid until the next call of this module. */
const struct maps *map_updates_maps(void);

/* Reads the maps. If the modules have changed, or if `force` is set, publishes and sends them.
 * False when the maps cannot be read now. */
bool map_updates_read(bool force);
/* The maps have just been read: plans the next reading. `running`: a capture runs. */
void map_updates_plan(bool running);
/* When map_updates_tick is due, CLOCK_MONOTONIC in ns. */
int64_t map_updates_due(bool running);
/* Reads the maps again if that is due. */
void map_updates_tick(int64_t now, bool running);

/* Whether tables of this generation are for the current modules. */
bool map_updates_is_current(uint64_t generation);
/* Publishes the tables that have arrived. */
void map_updates_publish(void);
/* The module map was cleared, so the next reading publishes and sends all modules again. Also in
 * the child of a fork. */
void map_updates_forget(void);

#endif
