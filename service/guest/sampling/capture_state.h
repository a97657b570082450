/* SPDX-License-Identifier: Apache-2.0
 *
 * One CPU capture's life in the guest:
 *
 *     idle --CpuConfig--> preparing --TablesDone, or 3 s--> running --CpuConfig(0)--> draining
 * --all read--> idle
 *
 * Preparing: rings and maps were sent, sonded compiles tables. Running: clocks are armed; about
 * every half second threads and maps are looked at, every second an account goes out. Draining:
 * clocks are off; the rings' memory is given back when sonded has read them. Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_STATE_H
#define SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_STATE_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>

void capture_on_config(const sonde_guest_v1_CpuConfig *config);
/* Takes fd. */
void capture_on_table(const sonde_guest_v1_Table *table, int fd);
void capture_on_tables_done(const sonde_guest_v1_TablesDone *done);
/* Whether a map is published and kept up to date. */
bool capture_has_maps(void);
/* Somebody else walks by the map, too (the heap's hook): it is read, sent and renewed while this is
 * wanted, captures or none. */
void capture_keep_maps(bool wanted);
/* Does what is due; milliseconds until something is again, -1 = never. */
int capture_tick(void);
/* Ends whatever runs, without a word to sonded, and gives the rings back: the connection is gone,
 * or sonde_stop. */
void capture_abandon(void);
/* The control thread ends and another goes on (guest_suspend_control): its CPU time is kept. */
void capture_suspend(void);
/* In the child of a fork. */
void capture_after_fork(void);

#endif
