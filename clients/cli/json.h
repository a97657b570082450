/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for --json, in the form of api/json. Any thread. */
#ifndef SONDE_CLIENTS_CLI_JSON_H
#define SONDE_CLIENTS_CLI_JSON_H

#include "api/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* A string literal with its quotes. */
void json_text(struct sonde_buf *out, const char *text);
/* A message on stdout, as one line, at once. */
void json_print(const ProtobufCMessage *message);

#endif
