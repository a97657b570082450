/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of frames and stacks: the first 8 bytes (big-endian) of a SHA-256, so that every sonded
 * computes the same id for the same contents. Two different stacks of one service with equal ids
 * are expected once in 2^32 stacks; stores compare on write and refuse the second one. Thread
 * safety: any thread. */
#ifndef SONDE_SERVICE_STORE_IDS_H
#define SONDE_SERVICE_STORE_IDS_H

#include <stddef.h>
#include <stdint.h>

/* Of "frame", the build-id (or, if that is "", the module's path), the address, and, if there is no
 * module at all, the name of the function that contains the code (not of one inlined into it).
 * Every text is followed by a zero byte; numbers are 8 bytes, big-endian. */
uint64_t store_frame_id(const char *build_id, const char *module, uint64_t address,
                        const char *function);
/* Of "stack", the service and the ids of the frames, leaf first. */
uint64_t store_stack_id(const char *service, const uint64_t *frames, size_t count);
/* Of any bytes. */
uint64_t store_hash(const void *bytes, size_t len);

#endif
