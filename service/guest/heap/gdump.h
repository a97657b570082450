/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's dumps at each new maximum of mapped memory ("gdump"). It writes a file and then calls
 * a hook, in the thread that grew, inside the allocator: there the file is opened and unlinked at
 * once, so that none stays in the host's folder; the control thread sends the descriptor away. One
 * is held at a time, further ones are dropped and counted; after each the switch is off for
 * GDUMP_PAUSE_NS, since a growing heap makes one per new chunk. Dumps of other kinds are the
 * program's own and left alone. Control thread only, but for the hook. */
#ifndef SONDE_SERVICE_GUEST_HEAP_GDUMP_H
#define SONDE_SERVICE_GUEST_HEAP_GDUMP_H

#include <stdbool.h>
#include <stdint.h>

#define GDUMP_PAUSE_NS 1000000000ll

/* 0 or an errno. */
int gdump_switch(bool on);
bool gdump_is_on(void);
/* The file that was caught, the caller's to close, and how many were dropped since; -1 = none. */
int gdump_take(uint64_t *skipped);
/* Switches on again after a pause; milliseconds until it wants to be called, -1 = never. */
int gdump_tick(int64_t now_ns);
/* Whether a file name is one of such a dump: ends in ".u<digits>.heap". */
bool gdump_is_name(const char *name);
void gdump_after_fork(void);

#endif
