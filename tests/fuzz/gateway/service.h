/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces the RPC client's functions, without gRPC and threads. Each service_step answers the
 * running calls once, as a script of bytes says. One thread. */
#ifndef SONDE_TESTS_FUZZ_GATEWAY_SERVICE_H
#define SONDE_TESTS_FUZZ_GATEWAY_SERVICE_H

#include "clients/c/client.h"

/* Sets the script, which is borrowed. With an empty one all calls succeed. */
void service_follow(struct sonde_slice script);
/* The next byte of the script; 0 at its end. */
uint8_t service_script_byte(void);
/* Delivers one event to every call that is ready for one. Returns the number of running calls. */
size_t service_step(void);

#endif
