/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole gateway in one thread. A client's bytes go through a real socket and h2o; the service
 * behind the gateway follows a script (service.h). */
#ifndef SONDE_TESTS_FUZZ_GATEWAY_GATEWAY_FIXTURE_H
#define SONDE_TESTS_FUZZ_GATEWAY_GATEWAY_FIXTURE_H

#include "api/bytes.h"

/* Plays one client and appends the answer to `answer` (may be NULL). The script decides where its
 * bytes are split, how it leaves and what the service answers. Aborts if anything of the client is
 * left afterwards: a connection, a relay or a call. */
void fixture_play(struct sonde_slice wire, struct sonde_slice script, struct sonde_buf *answer);

#endif
