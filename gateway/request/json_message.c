/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON is translated to protobuf's encoding, which protobuf-c unpacks. */
#include "gateway/request/json_message.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

static void put_varint(struct sonde_buf *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        sonde_buf_putc(out, (char)(value | 0x80));
    sonde_buf_putc(out, (char)value);
}

static void put_bytes(struct sonde_buf *out, const char *bytes, size_t len) {
    put_varint(out, len);
    sonde_buf_append(out, bytes, len);
}

static sonde_err wrong_type(const ProtobufCFieldDescriptor *field, const char *type,
                            struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must be %s", field->name, type);
}

/* "5" or 5. */
static bool read_whole(const json_t *value, int64_t *number) {
    *number = json_integer_value(value);
    if (!json_is_string(value))
        return json_is_integer(value);
    const char *text = json_string_value(value);
    char *end;
    size_t digits = strspn(text + (*text == '-'), "0123456789");
    *number = strtoll(text, &end, 10);
    return digits > 0 && digits < 20 && !*end;
}

static sonde_err put_object(struct sonde_buf *out, const json_t *object,
                            const ProtobufCMessageDescriptor *type, int depth,
                            struct sonde_diag *diag);

static sonde_err put_message(struct sonde_buf *out, const json_t *value,
                             const ProtobufCFieldDescriptor *field, int depth,
                             struct sonde_diag *diag) {
    struct sonde_buf inner = {0};
    sonde_err err = put_object(&inner, value, field->descriptor, depth + 1, diag);
    put_bytes(out, inner.data, inner.len);
    sonde_buf_finish(&inner);
    return err;
}

static void put_tag(struct sonde_buf *out, const ProtobufCFieldDescriptor *field, unsigned wire) {
    put_varint(out, (uint64_t)field->id << 3 | wire);
}

static sonde_err put_value(struct sonde_buf *out, const json_t *value,
                           const ProtobufCFieldDescriptor *field, int depth,
                           struct sonde_diag *diag) {
    int64_t whole;
    double number;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        if (!json_is_string(value))
            return wrong_type(field, "a string", diag);
        put_tag(out, field, 2);
        put_bytes(out, json_string_value(value), json_string_length(value));
        return SONDE_OK;
    case PROTOBUF_C_TYPE_MESSAGE:
        put_tag(out, field, 2);
        return put_message(out, value, field, depth, diag);
    case PROTOBUF_C_TYPE_DOUBLE:
        if (!json_is_number(value))
            return wrong_type(field, "a number", diag);
        number = json_number_value(value);
        put_tag(out, field, 1);
        sonde_buf_append(out, &number, sizeof number);
        return SONDE_OK;
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(value))
            return wrong_type(field, "true or false", diag);
        put_tag(out, field, 0);
        put_varint(out, json_boolean_value(value));
        return SONDE_OK;
    default:
        if (!read_whole(value, &whole))
            return wrong_type(field, "an integer", diag);
        put_tag(out, field, 0);
        put_varint(out, (uint64_t)whole);
        return SONDE_OK;
    }
}

/* "labelSelector" for "label_selector", "profileTypeID" for "profile_typeID". */
static bool is_camel(const char *name, const char *proto) {
    for (; *proto; proto++, name++) {
        char wanted = *proto;
        if (wanted == '_') {
            wanted = *++proto;
            wanted = (char)(wanted >= 'a' && wanted <= 'z' ? wanted - 'a' + 'A' : wanted);
        }
        if (*name != wanted || !wanted)
            return false;
    }
    return !*name;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const char *name) {
    for (unsigned i = 0; i < type->n_fields; i++)
        if (strcmp(type->fields[i].name, name) == 0 || is_camel(name, type->fields[i].name))
            return &type->fields[i];
    return NULL;
}

static sonde_err put_field(struct sonde_buf *out, const json_t *value,
                           const ProtobufCFieldDescriptor *field, int depth,
                           struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (json_is_null(value))
        return SONDE_OK;
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return put_value(out, value, field, depth, diag);
    if (!json_is_array(value))
        return wrong_type(field, "an array", diag);
    for (size_t i = 0; !err && i < json_array_size(value); i++)
        err = put_value(out, json_array_get(value, i), field, depth, diag);
    return err;
}

static sonde_err put_object(struct sonde_buf *out, const json_t *object,
                            const ProtobufCMessageDescriptor *type, int depth,
                            struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (!json_is_object(object) || depth > MAX_DEPTH)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must be a JSON object",
                          type->short_name);
    /* jansson iterates over objects that it is free to change. */
    json_t *own = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(own); !err && at; at = json_object_iter_next(own, at)) {
        const ProtobufCFieldDescriptor *field = find_field(type, json_object_iter_key(at));
        if (field)
            err = put_field(out, json_object_iter_value(at), field, depth, diag);
    }
    return err;
}

sonde_err json_message_read(struct sonde_slice body, const ProtobufCMessageDescriptor *type,
                            ProtobufCMessage **message, struct sonde_diag *diag) {
    struct sonde_buf packed = {0};
    json_error_t error = {.position = 0};
    sonde_err err = SONDE_OK;
    if (body.len) {
        json_t *root = json_loadb(body.data, body.len, 0, &error);
        err = root ? put_object(&packed, root, type, 0, diag)
                   : sonde_fail(diag, SONDE_INVALID_ARGUMENT, "malformed JSON at byte %d: %s",
                                error.position, error.text);
        json_decref(root);
    }
    *message =
        err ? NULL
            : protobuf_c_message_unpack(type, NULL, packed.len, (const uint8_t *)packed.data);
    if (!err && !*message)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the message cannot be read");
    sonde_buf_finish(&packed);
    return err;
}
