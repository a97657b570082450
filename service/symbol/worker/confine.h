/* SPDX-License-Identifier: Apache-2.0
 *
 * Drops the privileges that a reader of hostile files does not need: root, most system calls,
 * unlimited memory and CPU time. Call it once, while the process has one thread, before the first
 * byte is read. It cannot be undone. */
#ifndef SONDE_SERVICE_SYMBOL_WORKER_CONFINE_H
#define SONDE_SERVICE_SYMBOL_WORKER_CONFINE_H

#include <stdbool.h>

/* Returns false if the kernel refused a step; do not read any input then. */
bool symbol_confine(void);

#endif
