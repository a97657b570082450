/* SPDX-License-Identifier: Apache-2.0
 *
 * Debian builds abseil with its debug checks: each lock that gRPC takes goes through one graph of
 * lock orders, under one lock of the whole process. It is a seventh of the work of a small call.
 * The switch exists only in C++, so it is looked up by its name; without it nothing changes. */
#ifndef SONDE_BAZEL_GRPC_CORE_ABSEIL_H
#define SONDE_BAZEL_GRPC_CORE_ABSEIL_H

#include <dlfcn.h>
#include <string.h>

static inline void core_skip_lock_checks(void) {
    void (*set_mode)(int) = NULL;
    void *found = dlsym(RTLD_DEFAULT,
                        "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");
    memcpy(&set_mode, &found, sizeof found);
    if (set_mode)
        set_mode(0); /* kIgnore */
}

#endif
