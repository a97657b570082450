/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages as JSON, from their protobuf-c descriptors, by protobuf's own mapping: lowerCamelCase
 * names, 64-bit numbers as strings, enums by name, bytes in base64, NaN and infinities as strings.
 * Fields that hold their default are written, too, so that a reader sees every name there is; only
 * absent messages and unset members of a oneof are left out. Thread safety: any thread. */
#ifndef SONDE_API_JSON_JSON_H
#define SONDE_API_JSON_JSON_H

#include "api/bytes.h"

#include <protobuf-c/protobuf-c.h>

void sonde_json_message(struct sonde_buf *out, const ProtobufCMessage *message);
/* With its quotes. Bytes that are not UTF-8 come out as U+FFFD. */
void sonde_json_string(struct sonde_buf *out, struct sonde_slice text);

#endif
