/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that only start another one, such as timeout, nice and sh. They inherit LD_PRELOAD like
 * everybody, but the target that the user means is what they start. Any thread. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_WRAPPER_H
#define SONDE_SERVICE_GUEST_PROCESS_WRAPPER_H

#include <stdbool.h>

enum wrapper {
    WRAPPER_NONE,
    WRAPPER_ALWAYS, /* does nothing else */
    WRAPPER_SHELL   /* only while it has children; a shell may also do the work itself */
};

/* By the base name of argv[0]. */
enum wrapper wrapper_of(const char *program);

/* Whether this process has a child, running or not waited for. */
bool wrapper_has_child(void);

#endif
