/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads X-Forwarded-Prefix: the path below which a proxy serves the gateway, and which it has taken
 * off the request's path. Addresses in answers begin with it. The header is hostile: any client may
 * send it, so only plain paths are accepted. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_FORWARDED_H
#define SONDE_GATEWAY_REQUEST_FORWARDED_H

#include "api/bytes.h"

#define FORWARDED_PREFIX_SIZE 128

/* Writes "/tools/sonde", or "" for a header that is absent, too long or not a plain path. */
void forwarded_prefix(struct sonde_slice header, char prefix[FORWARDED_PREFIX_SIZE]);

#endif
