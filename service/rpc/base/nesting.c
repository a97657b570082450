/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the wire format with a stack of its own. Only fields that the type declares as messages are
 * entered: protobuf-c skips unknown ones without looking inside. */
#include "service/rpc/base/nesting.h"

enum wire { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

struct level {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
};

struct walk {
    struct level levels[NESTING_MAX_LEVELS];
    size_t depth; /* of levels; 0 = at the end */
    const uint8_t *at;
    bool is_too_deep;
};

static bool read_varint(struct walk *walk, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && walk->at < end; shift += 7) {
        uint8_t byte = *walk->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool skip(struct walk *walk, const uint8_t *end, uint64_t len) {
    if (len > (uint64_t)(end - walk->at))
        return false;
    walk->at += len;
    return true;
}

static bool enter(struct walk *walk, const ProtobufCMessageDescriptor *type, uint64_t len) {
    walk->is_too_deep = walk->depth == NESTING_MAX_LEVELS;
    if (walk->is_too_deep)
        return false;
    walk->levels[walk->depth++] = (struct level){type, walk->at + len};
    return true;
}

static bool read_bytes(struct walk *walk, const struct level *level, uint64_t number) {
    uint64_t len;
    if (!read_varint(walk, level->end, &len) || len > (uint64_t)(level->end - walk->at))
        return false;
    const ProtobufCFieldDescriptor *field =
        number <= UINT32_MAX
            ? protobuf_c_message_descriptor_get_field(level->type, (unsigned)number)
            : NULL;
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
        return enter(walk, field->descriptor, len);
    return skip(walk, level->end, len);
}

/* False at the first mistake, and at a level too many. */
static bool read_field(struct walk *walk) {
    const struct level level = walk->levels[walk->depth - 1];
    uint64_t key, value;
    if (!read_varint(walk, level.end, &key))
        return false;
    switch (key & 7) {
    case WIRE_VARINT:
        return read_varint(walk, level.end, &value);
    case WIRE_64:
        return skip(walk, level.end, 8);
    case WIRE_BYTES:
        return read_bytes(walk, &level, key >> 3);
    case WIRE_32:
        return skip(walk, level.end, 4);
    default:
        return false;
    }
}

bool nesting_is_bounded(const uint8_t *bytes, size_t len, const ProtobufCMessageDescriptor *type) {
    struct walk walk = {.at = bytes};
    bool goes_on = enter(&walk, type, len);
    while (goes_on && walk.depth > 0) {
        if (walk.at == walk.levels[walk.depth - 1].end)
            walk.depth--;
        else
            goes_on = read_field(&walk);
    }
    return !walk.is_too_deep;
}
