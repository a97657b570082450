/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of messages as lines of JSON, for as long as somebody reads. The last line is always the
 * status: {"code":200,"status":"OK","message":"max_windows"}, or the error's. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_LIVE_H
#define SONDE_GATEWAY_FAMILIES_LIVE_H

#include "gateway/request/relay.h"

/* Those attached now, then each that comes and goes. */
void live_watch_targets(struct visit *visit);

#endif
