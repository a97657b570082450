/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and giving back the shared rings (layout: ring.h, writing: signal/push.h). Made at the
 * first capture of a connection, sized for a stall of sonded of 1.5 s at the asked rate; their
 * memory is given back when a capture has ended and sonded has read all. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_RINGS_H
#define SONDE_SERVICE_GUEST_SAMPLING_RINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Fills handler_state.rings; 0 or an errno. Not while any clock is armed. */
int rings_create(uint64_t period_ns, uint32_t cpus);
/* Only after handler_is_quiescent. Accepts that there are none. */
void rings_destroy(void);
/* In the child of a fork: the rings are not mapped there. */
void rings_after_fork(void);
/* The memfd to send, -1 when there is none, or none any more (fds.h). */
int rings_fd(void);
/* What the sizes would be: bytes of each ring, and how many. */
uint64_t rings_plan(uint64_t period_ns, uint32_t cpus, uint32_t *count);

/* Whether sonded has read everything. */
bool rings_drained(void);
/* Gives back the memory of the data. Only when drained and with no clock armed. */
void rings_punch(void);
/* Sum of the tails: stands still when sonded is stuck. */
uint64_t rings_read_bytes(void);
/* Sum of the heads: stands still when nothing is pushed. */
uint64_t rings_written_bytes(void);

#endif
