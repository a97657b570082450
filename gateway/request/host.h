/* SPDX-License-Identifier: Apache-2.0
 *
 * The host that a client believes to speak to: "HOST", "HOST:PORT", "[V6]:PORT". A page whose name
 * was made to point at this machine (DNS rebinding) has its own name there. Pure functions over
 * hostile bytes; thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_HOST_H
#define SONDE_GATEWAY_REQUEST_HOST_H

#include "api/bytes.h"

/* localhost, what ends in .localhost, and the addresses of this machine alone. */
bool host_is_loopback(struct sonde_slice authority);
/* An address of any machine: no name that could have been made to point elsewhere. */
bool host_is_address(struct sonde_slice authority);
/* Whether it is one of names, without regard to case and port; "*" is every name. */
bool host_is_listed(struct sonde_slice authority, const char *const *names, size_t count);

#endif
