/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes protobuf-c messages as JSON, following protobuf's JSON mapping: lowerCamelCase names,
 * 64-bit numbers as strings, enums by name, bytes in base64, NaN and infinities as strings. Fields
 * with default values are also written, so that readers see all names. Only absent messages and
 * unset members of a oneof are left out. Thread safety: any thread. */
#ifndef SONDE_API_JSON_JSON_H
#define SONDE_API_JSON_JSON_H

#include "api/bytes.h"

#include <protobuf-c/protobuf-c.h>

void sonde_json_message(struct sonde_buf *out, const ProtobufCMessage *message);
/* Appends a quoted string, safe to embed in HTML. Invalid UTF-8 becomes U+FFFD. */
void sonde_json_string(struct sonde_buf *out, struct sonde_slice text);

#endif
