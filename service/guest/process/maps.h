/* SPDX-License-Identifier: Apache-2.0
 *
 * The process' mappings as /proc/self/maps tells them: executable ones, which sonded is told and
 * makes tables for; and the readable and writable ones, in which stacks lie. Read by plain system
 * calls in pieces of 16 KiB; at most MAPS_MODULES and MAPS_AREAS of them are kept. Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_MAPS_H
#define SONDE_SERVICE_GUEST_PROCESS_MAPS_H

#include "service/guest/signal/handler_state.h"

#define MAPS_MODULES 4096u
#define MAPS_AREAS   65536u
#define MAPS_PATH    256u

struct maps_module {
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor;
    char path[MAPS_PATH];
};

struct maps {
    uint32_t module_count;
    bool truncated;
    struct maps_module *modules; /* MAPS_MODULES of them, sorted by start */
    struct writable_areas *areas;
    struct walk_stack main_stack; /* the mapping "[stack]" */
};

/* Reserves the memory (pages come as they are used); 0 or an errno. Any number of times. */
int maps_init(struct maps *maps);
void maps_finish(struct maps *maps);
/* Reads them; 0 or an errno. */
int maps_read(struct maps *maps);
bool maps_same_module(const struct maps_module *one, const struct maps_module *other);
bool maps_same_modules(const struct maps *one, const struct maps *other);

/* For maps_read and its fuzzer: takes in one line without its newline. Lines of another form are
 * skipped. */
void maps_add_line(struct maps *maps, const char *line, size_t len);

#endif
