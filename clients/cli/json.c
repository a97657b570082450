/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void json_text(struct sonde_buf *out, const char *text) {
    sonde_buf_putc(out, '"');
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            sonde_buf_printf(out, "\\%c", byte);
        else if (byte < ' ' || byte == 127)
            sonde_buf_printf(out, "\\u%04x", byte);
        else
            sonde_buf_putc(out, (char)byte);
    }
    sonde_buf_putc(out, '"');
}

static void put_name(struct sonde_buf *out, const char *name) {
    sonde_buf_putc(out, '"');
    for (bool upper = false; *name; name++) {
        if (*name != '_')
            sonde_buf_putc(out, upper ? (char)toupper((unsigned char)*name) : *name);
        upper = *name == '_';
    }
    sonde_buf_puts(out, "\":");
}

static void put_enum(struct sonde_buf *out, const ProtobufCEnumDescriptor *type, int value) {
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    if (found)
        sonde_buf_printf(out, "\"%s\"", found->name);
    else
        sonde_buf_printf(out, "%d", value);
}

static void put_bytes(struct sonde_buf *out, const ProtobufCBinaryData *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    sonde_buf_putc(out, '"');
    for (size_t i = 0; i < bytes->len; i += 3) {
        size_t left = bytes->len - i;
        uint32_t group = (uint32_t)bytes->data[i] << 16;
        group |= left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0;
        group |= left > 2 ? bytes->data[i + 2] : 0;
        sonde_buf_putc(out, digits[group >> 18]);
        sonde_buf_putc(out, digits[group >> 12 & 63]);
        sonde_buf_putc(out, left > 1 ? digits[group >> 6 & 63] : '=');
        sonde_buf_putc(out, left > 2 ? digits[group & 63] : '=');
    }
    sonde_buf_putc(out, '"');
}

/* One value; `at` points to it. */
static void put_value(struct sonde_buf *out, const ProtobufCFieldDescriptor *field,
                      const void *at) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        sonde_buf_puts(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        sonde_buf_printf(out, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        sonde_buf_printf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        sonde_buf_printf(out, "\"%" PRId64 "\"", *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        sonde_buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        sonde_buf_printf(out, "%.9g", (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        sonde_buf_printf(out, "%.17g", *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(out, field->descriptor, *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        json_text(out, *(char *const *)at ? *(char *const *)at : "");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(out, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        json_message(out, *(ProtobufCMessage *const *)at);
        break;
    }
}

static size_t size_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void put_list(struct sonde_buf *out, const ProtobufCFieldDescriptor *field,
                     const char *base) {
    size_t count = *(const size_t *)(base + field->quantifier_offset);
    const char *items = *(char *const *)(base + field->offset);
    sonde_buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            sonde_buf_putc(out, ',');
        put_value(out, field, items + i * size_of(field->type));
    }
    sonde_buf_putc(out, ']');
}

/* Left out: the unset ones of a oneof, and messages that are not there. */
static bool is_there(const ProtobufCFieldDescriptor *field, const char *base) {
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(base + field->quantifier_offset) == field->id;
    return field->label == PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE ||
           *(void *const *)(base + field->offset) != NULL;
}

void json_message(struct sonde_buf *out, const ProtobufCMessage *message) {
    const char *base = (const char *)message;
    bool first = true;
    sonde_buf_putc(out, '{');
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (!is_there(field, base))
            continue;
        if (!first)
            sonde_buf_putc(out, ',');
        first = false;
        put_name(out, field->name);
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            put_list(out, field, base);
        else
            put_value(out, field, base + field->offset);
    }
    sonde_buf_putc(out, '}');
}

void json_print(const ProtobufCMessage *message) {
    struct sonde_buf text = {0};
    json_message(&text, message);
    if (!text.failed)
        puts(text.data);
    fflush(stdout);
    sonde_buf_finish(&text);
}
