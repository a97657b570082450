/* SPDX-License-Identifier: Apache-2.0
 *
 * Who this sonded is in the store: a random number, kept in a file, and how often it has started.
 * With a counter, they identify every window that it ever records, so that a window that is written
 * again is recognised. A file that is missing or damaged leads to a new random number. Any
 * thread. */
#ifndef SONDE_SERVICE_RECORDING_IDENTITY_H
#define SONDE_SERVICE_RECORDING_IDENTITY_H

#include "api/error.h"

#include <stdint.h>

struct identity {
    uint64_t source; /* not 0 */
    uint32_t epoch;  /* from 1 */
};

/* Reads dir/source, counts the start and writes the file durably. SONDE_IO. */
SONDE_MUST_USE sonde_err identity_begin(const char *dir, struct identity *identity,
                                        struct sonde_diag *diag);

#endif
