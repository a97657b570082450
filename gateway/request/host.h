/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the value of a Host header, "HOST", "HOST:PORT" or "[V6]:PORT", to detect DNS rebinding.
 * The value is hostile; a malformed one matches nothing. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_HOST_H
#define SONDE_GATEWAY_REQUEST_HOST_H

#include "api/bytes.h"

/* localhost, a name that ends in .localhost, or a loopback address. */
bool host_is_loopback(struct sonde_slice authority);
/* An IP address, which unlike a name cannot be rebound. */
bool host_is_address(struct sonde_slice authority);
/* Whether it is one of names, ignoring case and port. The name "*" matches everything. */
bool host_is_listed(struct sonde_slice authority, const char *const *names, size_t count);

#endif
