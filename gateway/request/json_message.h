/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a JSON body as a protobuf message, following protobuf's JSON mapping: names in camel case
 * or as in the proto, 64-bit numbers as strings or numbers, null as absent. Unknown fields are
 * ignored. Messages may have strings, numbers, booleans and messages, not bytes, enums and maps.
 * Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_JSON_MESSAGE_H
#define SONDE_GATEWAY_REQUEST_JSON_MESSAGE_H

#include "api/bytes.h"
#include "api/error.h"

#include <protobuf-c/protobuf-c.h>

/* An empty body is an empty message. Free *message with protobuf_c_message_free_unpacked.
 * SONDE_INVALID_ARGUMENT: the text has the byte at which the JSON is malformed, or the field that
 * has the wrong type. */
SONDE_MUST_USE sonde_err json_message_read(struct sonde_slice body,
                                           const ProtobufCMessageDescriptor *type,
                                           ProtobufCMessage **message, struct sonde_diag *diag);

#endif
