/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sent a request, in words. The service's audit shows it, because the calls are the gateway's.
 * Runs in the loop's thread. */
#ifndef SONDE_GATEWAY_REPLY_CALLER_NAME_H
#define SONDE_GATEWAY_REPLY_CALLER_NAME_H

#include "gateway/gateway.h"

#define CALLER_NAME_SIZE 160

/* "uid 1000, from 127.0.0.1", "token line 2, certificate ops, from 10.0.0.9"; cut to size. */
void caller_name(const struct request_context *context, char out[CALLER_NAME_SIZE]);

#endif
