/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU capture's life in the guest:
 *
 *     idle --CpuConfig--> preparing --TablesDone, or 3 s--> running --CpuConfig(0)--> draining
 *       ^------------------------------- sonded has read all ---------------------------'
 *
 * Preparing: rings and maps have been sent, and sonded compiles unwind tables. Running: clocks are
 * armed; threads and maps are checked about every half second, and an account is sent every second.
 * Draining: clocks are off; the rings' memory is freed when sonded has read it. Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_STATE_H
#define SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_STATE_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>

void capture_on_config(const sonde_guest_v1_CpuConfig *config);
/* Takes fd. */
void capture_on_table(const sonde_guest_v1_Table *table, int fd);
void capture_on_tables_done(const sonde_guest_v1_TablesDone *done);
/* Whether a module map is published and kept up to date. */
bool capture_has_maps(void);
/* Whether allocations are walked with the module map: it is then kept up to date and sent even
 * without a capture. */
void capture_keep_maps(bool wanted);
/* Does what is due. Milliseconds until the next call is due, -1 = never. */
int capture_tick(void);
/* Ends everything without a message to sonded and frees the rings: the connection is lost, or
 * sonde_stop was called. */
void capture_abandon(void);
/* The control thread ends, and another continues (guest_suspend_control): keeps its CPU time in the
 * account. */
void capture_suspend(void);
/* In the child of a fork. */
void capture_after_fork(void);

#endif
