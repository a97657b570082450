/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json/json.h"

#include "api/text/utf8.h"

#include <math.h>
#include <string.h>

static void append_ascii(struct sonde_buf *out, char byte) {
    if (byte == '"' || byte == '\\')
        sonde_buf_printf(out, "\\%c", byte);
    else if (byte == '\n')
        sonde_buf_puts(out, "\\n");
    else if ((unsigned char)byte < ' ' || byte == 0x7f || strchr("<>&", byte))
        sonde_buf_printf(out, "\\u%04x",
                         (unsigned char)byte); /* < > & so that it is safe inside HTML */
    else
        sonde_buf_putc(out, byte);
}

/* Printable ASCII except " & < > and the backslash, as a bit set. */
static bool is_plain(char byte) {
    static const uint64_t plain[4] = {0xafffffbb00000000u, 0x7fffffffefffffffu, 0, 0};
    unsigned char index = (unsigned char)byte;
    return plain[index >> 6] >> (index & 63) & 1;
}

/* Length of the prefix that needs no escapes; usually the whole text. */
static size_t plain_run(struct sonde_slice text) {
    size_t len = 0;
    while (len < text.len && is_plain(text.data[len]))
        len++;
    return len;
}

static void append_quoted(struct sonde_buf *out, const char *text, size_t len) {
    char *at = sonde_buf_extend(out, len + 2);
    if (!at)
        return;
    at[0] = '"';
    if (len)
        memcpy(at + 1, text, len);
    at[len + 1] = '"';
}

void sonde_json_string(struct sonde_buf *out, struct sonde_slice text) {
    uint32_t code;
    size_t plain = plain_run(text);
    if (plain == text.len) {
        append_quoted(out, text.data, text.len);
        return;
    }
    sonde_buf_putc(out, '"');
    sonde_buf_append(out, text.data, plain);
    for (size_t i = plain; i < text.len;) {
        size_t run = plain_run((struct sonde_slice){text.data + i, text.len - i});
        sonde_buf_append(out, text.data + i, run);
        i += run;
        if (i == text.len)
            break;
        size_t len = sonde_utf8_next(text.data + i, text.len - i, &code);
        if (len == 1)
            append_ascii(out, text.data[i]);
        else if (len > 1 && sonde_utf8_is_control(code)) /* they are all below U+10000 */
            sonde_buf_printf(out, "\\u%04x", (unsigned)code);
        else if (len > 1)
            sonde_buf_append(out, text.data + i, len);
        else
            sonde_buf_puts(out, "\xef\xbf\xbd");
        i += len ? len : 1;
    }
    sonde_buf_putc(out, '"');
}

static void append_base64(struct sonde_buf *out, const uint8_t *data, size_t len) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    sonde_buf_putc(out, '"');
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)data[i] << 16;
        three |= i + 1 < len ? (uint32_t)data[i + 1] << 8 : 0;
        three |= i + 2 < len ? data[i + 2] : 0;
        sonde_buf_putc(out, digits[three >> 18]);
        sonde_buf_putc(out, digits[three >> 12 & 63]);
        sonde_buf_putc(out, i + 1 < len ? digits[three >> 6 & 63] : '=');
        sonde_buf_putc(out, i + 2 < len ? digits[three & 63] : '=');
    }
    sonde_buf_putc(out, '"');
}

static void append_double(struct sonde_buf *out, double number, int digits) {
    if (isnan(number))
        sonde_buf_puts(out, "\"NaN\"");
    else if (isinf(number))
        sonde_buf_puts(out, number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        sonde_buf_printf(out, "%.*g", digits, number);
}

/* Writes digits before `end` and returns their start. Hand-written, because in small answers printf
 * would take half of the time. */
static char *put_digits(char *end, uint64_t number) {
    do
        *--end = (char)('0' + number % 10);
    while (number /= 10);
    return end;
}

/* quote: 64-bit numbers are strings in JSON. */
static void append_number(struct sonde_buf *out, bool is_negative, uint64_t size, bool quote) {
    char text[24], *end = text + sizeof text, *at = end - quote;
    if (quote)
        *at = '"';
    at = put_digits(at, size);
    if (is_negative)
        *--at = '-';
    if (quote)
        *--at = '"';
    sonde_buf_append(out, at, (size_t)(end - at));
}

static void append_unsigned(struct sonde_buf *out, uint64_t number, bool quote) {
    append_number(out, false, number, quote);
}

static void append_signed(struct sonde_buf *out, int64_t number, bool quote) {
    append_number(out, number < 0, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, quote);
}

static void append_enum(struct sonde_buf *out, const ProtobufCEnumDescriptor *type, int value) {
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    if (found)
        append_quoted(out, found->name, strlen(found->name));
    else
        append_signed(out, value, false);
}

static void append_bytes(struct sonde_buf *out, const ProtobufCBinaryData *bytes) {
    append_base64(out, bytes->data, bytes->len);
}

static void append_text(struct sonde_buf *out, const char *text) {
    sonde_json_string(out, sonde_slice_of(text));
}

/* Appends the value of the struct member at `member`. */
static void append_value(struct sonde_buf *out, const ProtobufCFieldDescriptor *field,
                         const void *member) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        append_signed(out, *(const int32_t *)member, false);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        append_unsigned(out, *(const uint32_t *)member, false);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        append_signed(out, *(const int64_t *)member, true);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        append_unsigned(out, *(const uint64_t *)member, true);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        append_double(out, *(const float *)member, 9);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        append_double(out, *(const double *)member, 17);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        sonde_buf_puts(out, *(const protobuf_c_boolean *)member ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        append_enum(out, field->descriptor, *(const int *)member);
        break;
    case PROTOBUF_C_TYPE_STRING:
        append_text(out, *(char *const *)member);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        append_bytes(out, member);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        sonde_json_message(out, *(ProtobufCMessage *const *)member);
        break;
    }
}

static size_t value_size(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 4;
    }
}

static void append_repeated(struct sonde_buf *out, const ProtobufCFieldDescriptor *field,
                            const void *member, size_t count) {
    const char *values = *(const char *const *)member;
    sonde_buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            sonde_buf_putc(out, ',');
        append_value(out, field, values + i * value_size(field->type));
    }
    sonde_buf_putc(out, ']');
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    const char *bytes = (const char *)message;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(bytes + field->quantifier_offset) == field->id;
    if (field->label != PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)(const void *)(bytes + field->offset) != NULL;
    return true;
}

/* Appends `before` ('{' or ',') and the name in camel case: "start_unix_ns" is "startUnixNs". */
static void append_name(struct sonde_buf *out, char before, const char *name) {
    size_t len = strlen(name);
    char *at = sonde_buf_extend(out, len + 4), *start = at;
    if (!at)
        return;
    *at++ = before;
    for (*at++ = '"'; *name; name++) {
        if (*name == '_' && name[1] >= 'a' && name[1] <= 'z')
            *at++ = (char)(*++name - 'a' + 'A');
        else if (*name != '_')
            *at++ = *name;
    }
    *at++ = '"';
    *at++ = ':';
    *at = 0;
    out->len -= (size_t)(start + len + 4 - at);
}

void sonde_json_message(struct sonde_buf *out, const ProtobufCMessage *message) {
    const char *bytes = (const char *)message;
    char before = '{';
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (!is_set(message, field))
            continue;
        append_name(out, before, field->name);
        before = ',';
        const void *member = bytes + field->offset;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            append_repeated(out, field, member,
                            *(const size_t *)(const void *)(bytes + field->quantifier_offset));
        else
            append_value(out, field, member);
    }
    if (before == '{')
        sonde_buf_putc(out, '{');
    sonde_buf_putc(out, '}');
}
