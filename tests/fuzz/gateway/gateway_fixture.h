/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole gateway in one thread: bytes of a client go in through a real socket and h2o, the
 * service behind follows a script (service.h). When a client has left, nothing of it may be left:
 * fixture_play ends the program otherwise. */
#ifndef SONDE_TESTS_FUZZ_GATEWAY_GATEWAY_FIXTURE_H
#define SONDE_TESTS_FUZZ_GATEWAY_GATEWAY_FIXTURE_H

#include "api/bytes.h"

/* One client's visit. The script says where its bytes are cut, when it leaves, and what the service
 * answers; what came back is appended to `answer` (may be NULL). */
void fixture_play(struct sonde_slice wire, struct sonde_slice script, struct sonde_buf *answer);

#endif
