/* SPDX-License-Identifier: Apache-2.0
 *
 * The module map that handlers walk by: the executable mappings of one generation, each with its
 * unwind table when sonded has sent one. A map is immutable; a changed set or a newly come table
 * makes a new one, which takes the old one's place by one store. What handlers may still be reading
 * is given back after handler_is_quiescent said yes.
 *
 * Tables are sealed memfds, checked once (unwind_table_check) and known by their headers: a table
 * that sonded sends again, for another mapping or a later generation, is not mapped twice. At most
 * TABLES_MOST images, TABLES_BYTES in all. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_MODULE_MAP_H
#define SONDE_SERVICE_GUEST_SAMPLING_MODULE_MAP_H

#include "service/guest/process/maps.h"

#define TABLES_MOST  4096u
#define TABLES_BYTES (1ull << 30)

/* The mappings now are these (copied); generation grows. Modules that were there before keep their
 * tables. */
int tables_set_modules(const struct maps *maps, uint64_t generation);
/* A table for the mapping that starts at `start`. Takes fd, which it closes. 0 or an errno (EINVAL:
 * not sealed, or not a table; ESTALE: of another generation; ENOENT: no such mapping). */
int tables_add(uint64_t generation, uint64_t start, uint64_t bias, uint64_t bytes, int fd);
/* Makes what is known now the handlers' map. 0 or an errno. */
int tables_publish(void);
uint64_t tables_generation(void);
/* Gives back maps and images that no handler can be reading. quiet: what handler_is_quiescent said
 * after the last publication. */
void tables_collect(bool quiet);
/* Everything goes, the published map too. Only after handler_is_quiescent. */
void tables_clear(void);
/* In the child of a fork: neither maps nor images are mapped there. */
void tables_after_fork(void);
uint32_t tables_held(void); /* images mapped now: for tests */

#endif
