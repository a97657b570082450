/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gateway takes from api/draw. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_POLICY_H
#define SONDE_GATEWAY_REQUEST_POLICY_H

#include "api/bytes.h"

/* The Content-Security-Policy of our own pictures: their one script and one style, nothing else. */
void policy_for_pictures(char *text, size_t size);

#endif
