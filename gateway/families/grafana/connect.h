/* SPDX-License-Identifier: Apache-2.0
 *
 * Connect's unary calls: a protobuf message, or the same as JSON, in the body of a POST and of its
 * answer. Errors are {"code","message"} (FAMILY_CONNECT). `struct connect` is a handler's state, or
 * its first member. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_CONNECT_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_CONNECT_H

#include "gateway/reply/relay.h"

struct connect {
    struct relay relay;
    bool is_json;
};

/* Whether the request is JSON; otherwise it is protobuf. */
bool connect_is_json(const struct request_context *context);
/* Returns the request's message, to be freed with protobuf_c_message_free_unpacked. NULL if it was
 * malformed or of another media type, and has been answered. */
ProtobufCMessage *connect_read(const struct request_context *context,
                               const ProtobufCMessageDescriptor *type);
/* relay_create for a state that begins with struct connect. */
void *connect_create(const struct request_context *context, size_t size,
                     const struct relay_events *events);
/* Takes the request and answers 200. */
void connect_answer(struct connect *connect, const ProtobufCMessage *message);

#endif
