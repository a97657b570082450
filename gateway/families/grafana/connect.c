/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/grafana/connect.h"

#include "api/json/json.h"
#include "gateway/reply/reply.h"
#include "gateway/request/json_message.h"

#include <string.h>

#define PROTO "application/proto"

bool connect_is_json(const struct request_context *context) {
    return negotiate_type_is(context->headers.content_type, "application/json");
}

static bool is_identity(const struct request_context *context) {
    struct sonde_slice coding = http_request_header(context->request, "content-encoding");
    return coding.len == 0 || sonde_slice_equals(coding, "identity");
}

static void refuse_type(struct http_request *request) {
    static const struct http_answer answer = {
        .status = 415,
        .headers = {{"accept-post", "application/proto, application/json"}},
        .header_count = 1};
    http_answer(request, &answer, (struct sonde_slice){"", 0});
}

ProtobufCMessage *connect_read(const struct request_context *context,
                               const ProtobufCMessageDescriptor *type) {
    struct sonde_slice body = http_request_body(context->request);
    struct sonde_diag diag = {0};
    ProtobufCMessage *message = NULL;
    sonde_err err = SONDE_OK;
    bool is_json = connect_is_json(context);
    if (!is_json && !negotiate_type_is(context->headers.content_type, PROTO)) {
        refuse_type(context->request);
        return NULL;
    }
    if (!is_identity(context))
        err = sonde_fail(&diag, SONDE_UNIMPLEMENTED, "compressed requests are not supported");
    else if (is_json)
        err = json_message_read(body, type, &message, &diag);
    else
        message = protobuf_c_message_unpack(type, NULL, body.len, (const uint8_t *)body.data);
    if (!err && !message)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "the body is not a %s", type->short_name);
    if (err)
        reply_error(context->request, FAMILY_CONNECT, err, &diag);
    return message;
}

void *connect_create(const struct request_context *context, size_t size,
                     const struct relay_events *events) {
    struct connect *connect = relay_create(context, size, events);
    connect->is_json = connect_is_json(context);
    return connect;
}

void connect_answer(struct connect *connect, const ProtobufCMessage *message) {
    const struct http_answer answer = {.status = 200,
                                       .content_type = connect->is_json ? REPLY_JSON : PROTO};
    struct sonde_buf body = {0};
    if (connect->is_json) {
        sonde_json_message(&body, message);
    } else {
        size_t len = protobuf_c_message_get_packed_size(message);
        char *at = sonde_buf_extend(&body, len);
        if (at)
            protobuf_c_message_pack(message, (uint8_t *)at);
    }
    http_answer_take(relay_take_request(&connect->relay), &answer, &body);
}
