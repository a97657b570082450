/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap room: what sonded asks about the host's heap is done here, on the control thread, one
 * HeapAnswer for each HeapCommand. Where the allocator can sample we switch it, put our backtrace
 * in the place of its own, and hand its dumps over in memfds, so that no file and no path is
 * needed; elsewhere our own sampler stands in malloc's place (interposer.h). Nothing here
 * allocates, and our own thread is never sampled.
 *
 * What we switched on is switched off again by heap_stop; when sonded is away it stays on for
 * HEAP_AWAY_S, walking by the allocator's own means, since a service that is started again goes on.
 * Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_HEAP_COMMANDS_H
#define SONDE_SERVICE_GUEST_HEAP_HEAP_COMMANDS_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>

#define HEAP_AWAY_S 300

/* maps_are_known: the map that stacks are walked by is kept already. Otherwise a command that
 * begins our own sampler is answered when its tables came (heap_on_tables), or 3 s later. */
void heap_on_command(const sonde_guest_v1_HeapCommand *command, bool maps_are_known);
void heap_on_tables(void);
/* Sends what was caught; milliseconds until something is due, -1 = never. */
int heap_tick(void);
/* Whether our hook is in place, or our own sampler: they walk by the capture's map and tables. */
bool heap_wants_maps(void);
/* sonded is away, and was not there since `since_s` (monotonic seconds). */
void heap_while_away(int64_t since_s);
/* The calling thread is the control thread from now on: its allocations are never shown. */
void heap_exclude_self(void);
/* sonde_stop: everything as we found it. */
void heap_stop(void);
/* In the child of a fork. */
void heap_after_fork(void);

#endif
