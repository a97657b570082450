/* SPDX-License-Identifier: Apache-2.0
 *
 * Who records. A window is identified by (source, epoch, number), so a store that receives it again
 * recognises it. Windows wait in memory only, so a source need not outlive its recording, and it is
 * drawn for each one: an image or a snapshot of a machine cannot repeat it. The installation stays.
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_RECORDING_IDENTITY_H
#define SONDE_SERVICE_RECORDING_IDENTITY_H

#include "api/error.h"

#include <stdint.h>

struct identity {
    uint64_t source;       /* of one recording; not 0 */
    uint64_t installation; /* of a data directory on a machine; not 0 */
    uint32_t epoch;        /* counts the starts, from 1 */
};

/* Reads dir/source, counts the start and writes the file durably. A file that is missing or damaged
 * leads to a new installation. SONDE_IO: the identity is good, but the next start may have another
 * installation, or the same epoch. */
SONDE_MUST_USE sonde_err identity_begin(const char *dir, struct identity *identity,
                                        struct sonde_diag *diag);
/* A source that no other recording has, on this machine or another. */
uint64_t identity_draw_source(void);

#endif
