/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers are generated from the descriptors, so a new method needs no code here. A good answer has
 * ordinary values in every field, a hostile one extreme values of the field's type. */
#include "tests/fuzz/gateway/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH    3
#define MAX_MESSAGES 4 /* of a stream without a script */

struct client_call {
    const struct client_method *method;
    struct client_callbacks callbacks;
    void *context;
    struct client_call *next;
    unsigned sent;
    bool is_ready, is_cancelled;
};

static struct client_call *calls;
static struct sonde_slice rest;

void service_follow(struct sonde_slice script) {
    rest = script;
}

uint8_t service_script_byte(void) {
    if (rest.len == 0)
        return 0;
    rest.len--;
    return (uint8_t)*rest.data++;
}

static void put_varint(struct sonde_buf *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        sonde_buf_putc(out, (char)(value | 0x80));
    sonde_buf_putc(out, (char)value);
}

static void put_bytes(struct sonde_buf *out, const void *bytes, size_t len) {
    put_varint(out, len);
    sonde_buf_append(out, bytes, len);
}

static void put_message(struct sonde_buf *out, const ProtobufCMessageDescriptor *type, bool is_bad,
                        unsigned which, int depth);

static const char *text_of(bool is_bad, unsigned which) {
    static const char *const bad[] = {"\"><script>alert(1)</script>",
                                      "a\nb\r\nc: d",
                                      "\x01\x7f\xff\xc3",
                                      "",
                                      "%s%n",
                                      "name--name"};
    return is_bad ? bad[which % (sizeof bad / sizeof bad[0])] : "redis";
}

/* Columns of 32-bit numbers are mostly indices into other columns. */
static bool is_index(const ProtobufCFieldDescriptor *field) {
    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_UINT32;
}

static void put_value(struct sonde_buf *out, const ProtobufCFieldDescriptor *field, bool is_bad,
                      unsigned which, int depth) {
    static const char eight_bad[8] = "\xff\xff\xff\xff\xff\xff\xff\x7f", eight[8] = {0};
    const char *text = text_of(is_bad, which);
    struct sonde_buf inner = {0};
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(out, text, strlen(text));
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        put_message(&inner, field->descriptor, is_bad, which, depth + 1);
        put_bytes(out, inner.data, inner.len);
        sonde_buf_finish(&inner);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        sonde_buf_append(out, is_bad ? eight_bad : eight, 8);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        sonde_buf_append(out, is_bad ? eight_bad + 4 : eight, 4);
        break;
    default:
        put_varint(out, is_bad ? UINT64_MAX >> (which % 64) : is_index(field) ? 0 : 5);
    }
}

static unsigned wire_type(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return 2;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return 1;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return 5;
    default:
        return 0;
    }
}

/* Of a oneof only writes the field that `which` selects. */
static void put_message(struct sonde_buf *out, const ProtobufCMessageDescriptor *type, bool is_bad,
                        unsigned which, int depth) {
    unsigned in_oneof = 0, chosen = 0;
    for (unsigned i = 0; i < type->n_fields; i++)
        in_oneof += (type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        bool is_choice = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
        if (depth == MAX_DEPTH && field->type == PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (is_choice && chosen++ != which % in_oneof)
            continue;
        put_varint(out, (uint64_t)field->id << 3 | wire_type(field->type));
        put_value(out, field, is_bad, which + i, depth);
    }
}

static bool hand_over(struct client_call *call, const void *bytes, size_t len) {
    ProtobufCMessage *message = protobuf_c_message_unpack(call->method->response, NULL, len, bytes);
    if (!message)
        return false;
    call->sent++;
    if (call->callbacks.on_message(call->context, call, message))
        call->is_ready = true;
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

/* Without a script, a capture sends progress, result and chunk in this order. */
static bool send_made(struct client_call *call, bool is_bad) {
    struct sonde_buf bytes = {0};
    put_message(&bytes, call->method->response, is_bad, is_bad ? service_script_byte() : call->sent,
                0);
    bool is_good = hand_over(call, bytes.data, bytes.len);
    sonde_buf_finish(&bytes);
    return is_good;
}

static bool send_scripted(struct client_call *call) {
    size_t len = service_script_byte();
    len = len < rest.len ? len : rest.len;
    bool is_good = hand_over(call, rest.data, len);
    rest.data += len;
    rest.len -= len;
    return is_good;
}

static void finish(struct client_call *call, sonde_err err) {
    struct sonde_diag diag = {.code = err};
    const struct client_call *gone = call;
    struct client_call **link = &calls;
    while (*link != gone)
        link = &(*link)->next;
    *link = call->next;
    if (err && rest.len)
        snprintf(diag.text, sizeof diag.text, "%s", text_of(true, service_script_byte()));
    call->callbacks.on_end(call->context, err, &diag);
    free(call);
}

static void answer(struct client_call *call) {
    unsigned most = call->method->streaming ? MAX_MESSAGES : 1;
    uint8_t what = service_script_byte();
    call->is_ready = !call->method->streaming;
    if (call->is_cancelled)
        finish(call, SONDE_CANCELLED);
    else if (what % 8 == 7)
        finish(call, (sonde_err)(service_script_byte() % SONDE_ERR_COUNT));
    else if (call->sent >= most)
        finish(call, SONDE_OK);
    else if (!(what % 8 == 6   ? send_scripted(call)
               : what % 8 == 5 ? send_made(call, true)
                               : send_made(call, false)))
        finish(call, SONDE_PROTOCOL);
}

size_t service_step(void) {
    struct client_call *ready[256];
    size_t count = 0, left = 0;
    for (struct client_call *call = calls; call && count < 256; call = call->next)
        if (call->is_ready || call->is_cancelled)
            ready[count++] = call;
    for (size_t i = 0; i < count; i++)
        answer(ready[i]); /* frees only that call */
    for (struct client_call *call = calls; call; call = call->next)
        left++;
    return left;
}

struct client_call *
client_call_start_sending(struct client *client, const struct client_method *method,
                          const ProtobufCMessage *first, uint32_t deadline_ms,
                          const struct client_caller *caller,
                          const struct client_callbacks *callbacks,
                          void (*on_sent)(void *context, struct client_call *call), void *context) {
    uint8_t *packed = malloc(protobuf_c_message_get_packed_size(first) + 1);
    protobuf_c_message_pack(first, packed); /* fails on malformed requests */
    free(packed);
    struct client_call *call = calloc(1, sizeof *call);
    *call = (struct client_call){method, *callbacks, context, calls, 0, true, false};
    return calls = call;
}

void client_call_send(struct client_call *call, const ProtobufCMessage *request) {
}

void client_call_next(struct client_call *call) {
    call->is_ready = true;
}

void client_call_cancel(struct client_call *call) {
    call->is_cancelled = true;
}
