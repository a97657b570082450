/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread may do: its capabilities and securebits, which Linux keeps a thread and not a
 * process. libc changes user and group ids in every thread and aborts the process when one thread
 * fares differently, so the control thread must have just what the host's own threads have. Thread
 * safety: any thread. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_CAPABILITIES_H
#define SONDE_SERVICE_GUEST_PROCESS_CAPABILITIES_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct rights {
    uint32_t effective[2], permitted[2], inheritable[2];
    long securebits; /* of the calling thread's; others' are not told */
};

/* Of thread tid of this process; 0 = the calling one. False where the kernel does not say. */
bool rights_of(int tid, struct rights *rights);
bool rights_equal(const struct rights *a, const struct rights *b);
/* Of the calling thread: gives up what thread tid has not got. */
void rights_limit_to(int tid);

#pragma GCC visibility pop

#endif
