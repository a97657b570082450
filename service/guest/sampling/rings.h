/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and frees the shared rings (layout: ring.h, writing: signal/push.h). They are created at
 * the first capture of a connection, large enough for 1.5 s of samples at the capture's rate, so
 * that sonded may stall that long. Their memory is freed when a capture has ended and sonded has
 * read everything. Where RLIMIT_AS is tight, they are smaller (address_space.h): records that do
 * not fit are dropped and counted. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_RINGS_H
#define SONDE_SERVICE_GUEST_SAMPLING_RINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Fills handler_state.rings; 0 or an errno, ENOMEM also if RLIMIT_AS has no room. Only while no
 * clock is armed. */
int rings_create(uint64_t period_ns, uint32_t cpus);
/* Only after handler_is_quiescent. Does nothing when there are none. */
void rings_destroy(void);
/* In the child of a fork, where the rings are not mapped. */
void rings_after_fork(void);
/* The memfd to send, borrowed; -1 when there is none, or the application has closed it. */
int rings_fd(void);
/* Whether the rings are large enough for that rate, or as large as the limits allowed. */
bool rings_suffice(uint64_t period_ns, uint32_t cpus);
/* The size that rings_create would choose without limits: returns the bytes of each ring. */
uint64_t rings_plan(uint64_t period_ns, uint32_t cpus, uint32_t *count);

/* Whether sonded has read everything. */
bool rings_drained(void);
/* Frees the pages of the data. Only when drained, and while no clock is armed. */
void rings_punch(void);
/* Bytes that sonded has read since rings_create, over all rings. */
uint64_t rings_read_bytes(void);
/* Bytes written since rings_create, over all rings. */
uint64_t rings_written_bytes(void);

#endif
