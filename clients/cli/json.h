/* SPDX-License-Identifier: Apache-2.0
 *
 * Output for --json, as api/json writes it. Any thread. */
#ifndef SONDE_CLIENTS_CLI_JSON_H
#define SONDE_CLIENTS_CLI_JSON_H

#include "api/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* Appends text as a JSON string, with quotes. */
void json_text(struct sonde_buf *out, const char *text);
/* Prints a message as one line on stdout and flushes. */
void json_print(const ProtobufCMessage *message);

#endif
