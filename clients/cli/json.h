/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON for --json: any message of the service by its descriptor, in the way of proto3's JSON
 * mapping (lowerCamelCase names, 64-bit numbers as text, enums by name). Any thread. */
#ifndef SONDE_CLIENTS_CLI_JSON_H
#define SONDE_CLIENTS_CLI_JSON_H

#include "api/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* A string literal with its quotes. */
void json_text(struct sonde_buf *out, const char *text);
/* Every field, set or not, so that a script finds what it looks for; of a oneof only the one set.
 */
void json_message(struct sonde_buf *out, const ProtobufCMessage *message);
/* The same on stdout, as one line, at once. */
void json_print(const ProtobufCMessage *message);

#endif
