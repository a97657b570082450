/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether memory that was published to signal handlers and to allocations (maps, tables, rings) can
 * be freed or reused after it has been replaced. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_QUIESCENCE_H
#define SONDE_SERVICE_GUEST_QUIESCENCE_H

#include <stdbool.h>

/* True when every signal handler and every walk of an allocation that ran at the call has ended.
 * Does not wait. */
bool quiescence_reached(void);
/* Waits for that, up to `tries` milliseconds. */
bool quiescence_wait(int tries);

#endif
