/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes sonded's commands about the heap, one HeapAnswer for each HeapCommand. If the process
 * runs jemalloc with profiling enabled, the guest switches that, replaces its backtrace by a faster
 * one, and passes dumps on in memfds, without files. Otherwise it uses Sonde's sampler
 * (sampler_control.h). Nothing here allocates, and the control thread is never sampled.
 *
 * heap_stop switches off what was switched on. While sonded is away, sampling goes on for
 * HEAP_AWAY_S with jemalloc's own backtrace, because a restarted sonded takes it over. Control
 * thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_HEAP_COMMANDS_H
#define SONDE_SERVICE_GUEST_HEAP_HEAP_COMMANDS_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>

#define HEAP_AWAY_S 300

/* maps_are_known: the module map is published. If it is not, the answer to a command that starts
 * Sonde's sampler waits for heap_on_tables, or 3 s. */
void heap_on_command(const sonde_guest_v1_HeapCommand *command, bool maps_are_known);
/* The unwind tables have arrived. */
void heap_on_tables(void);
/* Sends a dump at a new maximum and due answers. Milliseconds until the next call is due, -1 =
 * never. */
int heap_tick(void);
/* Whether allocations are walked with the module map, which must be kept up to date then. */
bool heap_wants_maps(void);
/* Called while sonded is away, which it has been since `since_s` (CLOCK_MONOTONIC, seconds). */
void heap_while_away(int64_t since_s);
/* Never samples the calling thread, which is the control thread from now on. */
void heap_exclude_self(void);
/* Restores everything. */
void heap_stop(void);
/* In the child of a fork. */
void heap_after_fork(void);

#endif
