/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the token of an Authorization header. "Bearer TOKEN" is the scheme that answers name.
 * "Basic" is for clients that can only send a name and a password: go tool pprof, curl -u and
 * addresses with NAME:TOKEN@. The password is the token; without a password the name is. The header
 * is hostile. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_CREDENTIALS_H
#define SONDE_GATEWAY_REQUEST_CREDENTIALS_H

#include "api/bytes.h"

#include <stdbool.h>

#define CREDENTIALS_PREFIX "Bearer "
#define CREDENTIALS_SIZE   4096

/* Writes "Bearer TOKEN" with a zero at the end. Returns false if the header has no token of
 * printable ASCII that fits. */
bool credentials_read(struct sonde_slice authorization, char bearer[CREDENTIALS_SIZE]);
/* Whether the scheme is Basic. */
bool credentials_are_basic(struct sonde_slice authorization);

#endif
