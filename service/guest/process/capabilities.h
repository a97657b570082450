/* SPDX-License-Identifier: Apache-2.0
 *
 * Capabilities and securebits, which Linux keeps per thread. libc changes user and group ids in
 * every thread and aborts the process when one thread may and another may not, so the control
 * thread must have the same capabilities as the application's threads. Any thread; not
 * signal-safe. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_CAPABILITIES_H
#define SONDE_SERVICE_GUEST_PROCESS_CAPABILITIES_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct capabilities {
    uint32_t effective[2], permitted[2], inheritable[2];
    long securebits; /* always those of the calling thread: the kernel does not show others' */
};

/* Of thread tid of this process, 0 = the calling thread. False when the kernel does not answer. */
bool capabilities_get(int tid, struct capabilities *capabilities);
bool capabilities_equal(const struct capabilities *a, const struct capabilities *b);
/* Drops each capability of the calling thread that thread tid does not have. */
void capabilities_limit_to(int tid);

#pragma GCC visibility pop

#endif
