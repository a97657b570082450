/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns off abseil's deadlock detection, which Debian's build enables. It enters every lock that
 * gRPC takes into a graph under one global lock, and costs a seventh of the time of a small call.
 * The function that turns it off is C++, so it is looked up by its mangled name; if it is missing,
 * the detection stays on. */
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
