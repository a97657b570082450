/* SPDX-License-Identifier: Apache-2.0
 *
 * The next answer of a call of Collect. Internal to service/collect; with the lock held. */
#ifndef SONDE_SERVICE_COLLECT_ENCODE_H
#define SONDE_SERVICE_COLLECT_ENCODE_H

#include "service/collect/session.h"

#define ENCODE_DEFINITION_BYTES (512u << 10) /* definitions beyond it go into the next answer */

/* Fills the answer; *is_empty: there is nothing to say. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err encode_next(struct collect_link *link, int64_t now_ns,
                                     struct sonde_arena *arena,
                                     Sonde__V1__CollectResponse *response, bool *is_empty);

#endif
