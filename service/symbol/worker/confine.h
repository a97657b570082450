/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives up, for good, what a converter of hostile bytes does not need. One call, before the first
 * byte is read, in a process with one thread. */
#ifndef SONDE_SERVICE_SYMBOL_WORKER_CONFINE_H
#define SONDE_SERVICE_SYMBOL_WORKER_CONFINE_H

#include <stdbool.h>

/* False when something was refused: then nothing may be read. */
bool symbol_confine(void);

#endif
