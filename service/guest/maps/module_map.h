/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds and publishes the module map that stack walks use: the executable mappings of one
 * generation, each with the unwind table that sonded sent for it. A published map never changes,
 * but for its count of dlcloses. A changed set of mappings, or a new table, makes a new map, which
 * replaces the old one by one store; the old one is freed after handler_is_quiescent.
 *
 * A table arrives as a sealed memfd. It is checked once (unwind_table_check) and recognized by its
 * header, so the same table for another mapping or a later generation is not mapped twice. At most
 * MODULE_MAP_IMAGES tables of MODULE_MAP_BYTES in all are held. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_MAPS_MODULE_MAP_H
#define SONDE_SERVICE_GUEST_MAPS_MODULE_MAP_H

#include "service/guest/maps/maps.h"

#define MODULE_MAP_IMAGES 4096u
#define MODULE_MAP_BYTES  (1ull << 30)

/* Replaces the mappings by a copy of these; 0 or ENOMEM. A module that was there before keeps its
 * table. `generation` must be higher than the last one. */
int module_map_set_modules(const struct maps *maps, uint64_t generation);
/* Adds the table for the mapping that starts at `start`; bias: runtime address - ELF vaddr. Takes
 * fd and closes it. 0 or an errno: EINVAL (not sealed, or not a table), ESTALE (of another
 * generation), ENOENT (no such mapping), EBADF (fd is -1), ENOSPC (a limit is reached). */
int module_map_add_table(uint64_t generation, uint64_t start, uint64_t bias, uint64_t bytes,
                         int fd);
/* Publishes the mappings and tables known now as handler_state.map. 0, ENOMEM, or EAGAIN while too
 * many old maps wait to be freed. */
int module_map_publish(void);
uint64_t module_map_generation(void);
/* sonded has sent all tables of this generation. */
void module_map_set_complete(void);
/* handler_state.closes before the maps were read; for the published map and those to come. */
void module_map_set_closes(uint32_t closes);
/* Frees old maps and unused tables. is_quiescent: no handler can still be reading what the last
 * publication replaced; false does nothing. */
void module_map_collect(bool is_quiescent);
/* Unpublishes and frees everything. Only after handler_is_quiescent. */
void module_map_clear(void);
/* In the child of a fork: forgets everything, since neither maps nor tables are mapped there. */
void module_map_after_fork(void);
/* Number of tables held now. For tests. */
uint32_t module_map_images(void);

#endif
