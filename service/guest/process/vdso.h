/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's clock function. libc's clock_gettime may be replaced by another preloaded library
 * (libfaketime), which takes locks, and whose time is not that of sonded. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_VDSO_H
#define SONDE_SERVICE_GUEST_PROCESS_VDSO_H

#include <stddef.h>
#include <time.h>

typedef int vdso_clock_function(clockid_t clock, struct timespec *time);

/* The function in the process's vdso; NULL if there is none. Any thread. */
vdso_clock_function *vdso_find_clock(void);
/* The same in an image of that address: it may be hostile, but `bytes` of it are readable. */
vdso_clock_function *vdso_find_clock_in(const void *image, size_t bytes);

#endif
