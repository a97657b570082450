/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls without libc: no errno, no cancellation point, no lock, no lazy binding. For signal
 * handlers, and where libc's function is one that we replace. system_call and system_call3 (the
 * machine's system.h) make any of them. A failure returns -errno. Any thread; signal-safe. */
#ifndef SONDE_SERVICE_GUEST_RAW_H
#define SONDE_SERVICE_GUEST_RAW_H

#include "service/machine/own/system.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static inline long raw_close(int fd) {
    return system_call3(SYS_close, fd, 0, 0);
}

/* A name in the library would be bound to glibc 2.33 (libc.h). */
static inline long raw_fstat(int fd, struct stat *status) {
    return system_call3(SYS_fstat, fd, (long)status, 0);
}

/* An empty memory file that can be sealed, or -errno. */
static inline int raw_memfd(const char *name) {
    return (int)system_call3(SYS_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
}

static inline int raw_gettid(void) {
    return (int)system_call3(SYS_gettid, 0, 0, 0);
}

#endif
