/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's mappings, read from /proc/self/maps: the executable ones, which sonded compiles
 * unwind tables for, and the readable and writable ones, which hold stacks. Read by plain system
 * calls in pieces of 16 KiB; at most MAPS_MODULES and MAPS_AREAS mappings are kept. Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_MAPS_MAPS_H
#define SONDE_SERVICE_GUEST_MAPS_MAPS_H

#include "service/guest/signal/handler_state.h"

#define MAPS_MODULES 4096u
#define MAPS_AREAS   65536u
#define MAPS_PATH    256u /* bytes, with the NUL; longer paths are cut */

struct maps_module {
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor;
    uint64_t born; /* the generation that first had this mapping; map_updates.h sets it */
    char path[MAPS_PATH];
};

struct maps {
    uint32_t module_count;
    bool truncated;              /* there are more than MAPS_MODULES */
    struct maps_module *modules; /* MAPS_MODULES of them, sorted by start */
    struct writable_areas *areas;
    struct walk_stack main_stack; /* the mapping "[stack]" */
};

/* Reserves the memory, whose pages are allocated as they are used; 0 or an errno. Zeroed memory is
 * a valid struct maps; a second call does nothing. */
int maps_init(struct maps *maps);
/* Frees the memory and zeroes *maps. */
void maps_finish(struct maps *maps);
/* Replaces the contents by the mappings of this moment; 0 or an errno. */
int maps_read(struct maps *maps);

/* `born` is not compared. */
bool maps_same_module(const struct maps_module *one, const struct maps_module *other);
/* Whether both have the same modules; areas are not compared. */
bool maps_same_modules(const struct maps *one, const struct maps *other);

/* Sets `born` of each module: that of the same module in `before`, or else `generation`. Anonymous
 * memory that overlaps such memory in `before` only changed its size, as a JIT's does. */
void maps_set_born(struct maps *maps, const struct maps *before, uint64_t generation);

/* Adds one line, given without its newline. A line of another form is skipped. For maps_read and
 * its fuzzer. */
void maps_add_line(struct maps *maps, const char *line, size_t len);

#endif
