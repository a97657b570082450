/* SPDX-License-Identifier: Apache-2.0
 *
 * How deep a message's submessages are nested. protobuf-c decodes by recursion and has no limit, so
 * a message of 90 KB can exhaust the stack. Thread safety: any thread.
 *
 * Requests of OTLP contain values that contain values. No other message contains itself, so
 * clients, the registration, sonde-collect's server and the gateway decode without this
 * (tests/unit/rpc/nesting_test.c). */
#ifndef SONDE_SERVICE_RPC_BASE_NESTING_H
#define SONDE_SERVICE_RPC_BASE_NESTING_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NESTING_MAX_LEVELS 100 /* the limit of protobuf's own libraries */

/* Whether the message has at most NESTING_MAX_LEVELS levels. Bytes that are not a message of this
 * type are walked up to the mistake, where protobuf-c stops as well. */
bool nesting_is_bounded(const uint8_t *bytes, size_t len, const ProtobufCMessageDescriptor *type);

#endif
