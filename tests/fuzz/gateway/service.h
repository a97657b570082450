/* SPDX-License-Identifier: Apache-2.0
 *
 * The RPC client as the gateway sees it, without gRPC and without a thread: calls answer when
 * service_step says so, as a script of bytes tells. Linked before the real one, whose functions it
 * replaces. One thread. */
#ifndef SONDE_TESTS_FUZZ_GATEWAY_SERVICE_H
#define SONDE_TESTS_FUZZ_GATEWAY_SERVICE_H

#include "clients/c/client.h"

/* What follows decides how calls answer; an empty script answers each of them well. Borrowed. */
void service_follow(struct sonde_slice script);
/* The script's next byte; 0 when it has ended. */
uint8_t service_script_byte(void);
/* One event for every call that has one; how many calls are left. */
size_t service_step(void);

#endif
