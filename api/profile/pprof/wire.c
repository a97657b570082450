/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/pprof/wire.h"

#define WIRE_FIXED64 1
#define WIRE_FIXED32 5

bool wire_get_varint(struct wire_reader *reader, uint64_t *value) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < WIRE_MAX_VARINT && reader->at + i < reader->end; i++) {
        uint8_t byte = reader->at[i];
        sum |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            reader->at += i + 1;
            *value = sum;
            return true;
        }
    }
    return false;
}

static bool get_fixed(struct wire_reader *reader, size_t size, uint64_t *value) {
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += size;
    return true;
}

static bool get_bytes(struct wire_reader *reader, struct wire_reader *nested) {
    uint64_t len;
    if (!wire_get_varint(reader, &len) || len > (uint64_t)(reader->end - reader->at))
        return false;
    *nested = (struct wire_reader){reader->at, reader->at + len, reader->start};
    reader->at += len;
    return true;
}

static bool get_field(struct wire_reader *reader, struct wire_field *field) {
    uint64_t tag;
    if (!wire_get_varint(reader, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    *field = (struct wire_field){.number = (uint32_t)(tag >> 3), .type = tag & 7};
    switch (field->type) {
    case WIRE_VARINT:
        return wire_get_varint(reader, &field->value);
    case WIRE_BYTES:
        return get_bytes(reader, &field->nested);
    case WIRE_FIXED64:
        return get_fixed(reader, 8, &field->value);
    case WIRE_FIXED32:
        return get_fixed(reader, 4, &field->value);
    default:
        return false;
    }
}

bool wire_next(struct wire_reader *reader, struct wire_field *field) {
    if (reader->at == reader->end)
        return false;
    const uint8_t *before = reader->at;
    if (get_field(reader, field))
        return true;
    reader->at = before;
    return false;
}
