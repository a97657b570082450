/* SPDX-License-Identifier: Apache-2.0
 *
 * How large an alternate signal stack must be for a tick. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_STACK_ROOM_H
#define SONDE_SERVICE_GUEST_SAMPLING_STACK_ROOM_H

#include <stddef.h>

/* The number of bytes that the kernel's frame and our handler take. Since Linux 5.14, the kernel
 * tells x86-64 programs how large its frame can be on this CPU (AT_MINSIGSTKSZ). On older kernels
 * it is estimated: the frame is mostly the area of XSAVE, whose size is in leaf 13 of CPUID. Both
 * include 8 KiB for AMX, which only threads that have used AMX need: without permission for it, the
 * kernel saves none of it. Ticks of a thread that has, on a stack with room for no more than the
 * kernel's frame, are dropped by the handler (RING_DROP_NO_STACK). Any thread; signal-safe. */
size_t stack_room_needed(void);

#endif
