/* SPDX-License-Identifier: Apache-2.0
 *
 * The port of an address HOST:PORT. Thread safety: any thread. */
#ifndef SONDE_API_TEXT_PORT_H
#define SONDE_API_TEXT_PORT_H

#include <stdbool.h>

/* Reads a port from 0 to 65535. False for any other text; libc's getaddrinfo takes 99999 for 34463.
 */
bool sonde_port_read(const char *digits, unsigned *port);

#define SONDE_PORT_RULE "the port must be a number from 0 to 65535"

#endif
