/* SPDX-License-Identifier: Apache-2.0
 *
 * How large an alternate signal stack must be for a tick. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_STACK_ROOM_H
#define SONDE_SERVICE_GUEST_SAMPLING_STACK_ROOM_H

#include <stddef.h>

/* Bytes for the kernel's frame and our handler. The kernel says how large its frame can be on this
 * CPU (AT_MINSIGSTKSZ, since Linux 5.14 on x86-64). Before, it is at least the area of XSAVE, whose
 * size CPUID has (leaf 13). Any thread; signal-safe. */
size_t stack_room_needed(void);

#endif
