/* SPDX-License-Identifier: Apache-2.0
 *
 * The executable mappings of a process at one time.
 *
 * A map is shared by a process and the children it forks until one of them changes it, and by
 * samples that wait for a table. So it is reference-counted and copied before a shared one is
 * changed; the mappings themselves stay shared. Thread safety: engine thread only; code_map_read
 * runs on any thread. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_CODE_MAP_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_CODE_MAP_H

#include "service/engine/report/address_space.h"
#include "service/host/record.h"

struct code_map {
    uint32_t refs;
    uint64_t serial; /* different for every state of every map */
    struct generation *generation;
};

struct code_map *code_map_create(void);                 /* an empty one; NULL when out of memory */
struct code_map *code_map_retain(struct code_map *map); /* NULL is fine */
void code_map_release(struct code_map *map);

/* A mapping that a record announced. */
struct code_map_change {
    uint64_t time_ns;
    struct mapping *mapping;
};

/* The mapping of a record; NULL: it is not code of the process, or out of memory. */
struct mapping *code_map_mapping(const struct host_mmap *from);
/* Puts the mapping in place of those that it overlaps, and keeps what remains of these. *map is
 * replaced by a copy if others use it. False when out of memory. */
bool code_map_add(struct code_map **map, struct mapping *mapping);
/* A map of these mappings, which takes `generation`. Those that `old` (may be NULL) has, too, stay
 * the same objects. NULL when out of memory. */
struct code_map *code_map_from(struct generation *generation, const struct code_map *old);

/* Reads the executable mappings from an open /proc/PID/maps, which it closes. NULL when out of
 * memory, or if there are none. */
struct generation *code_map_read(int fd);

#endif
