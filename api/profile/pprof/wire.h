/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader and a writer of protobuf's wire format. Writing pprof files by hand is several times
 * faster than with a library, because almost all of the output is one message type. Thread safety:
 * any thread. */
#ifndef SONDE_API_PROFILE_PPROF_WIRE_H
#define SONDE_API_PROFILE_PPROF_WIRE_H

#include "api/bytes.h"

#include <string.h>

#define WIRE_VARINT     0
#define WIRE_BYTES      2
#define WIRE_MAX_VARINT 10

/* Writers write to memory that the caller knows to be large enough, and return its end. */
static inline uint8_t *wire_put_varint(uint8_t *at, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* The same for ids, which are usually small: without a branch for up to 14 bits. May overwrite one
 * byte more than it returns. */
static inline uint8_t *wire_put_id(uint8_t *at, uint32_t id) {
    if (id >= 1u << 14)
        return wire_put_varint(at, id);
    uint32_t is_long = id >= 0x80;
    uint16_t both = (uint16_t)(id + (id & ~0x7fu) + is_long * 0x80);
    memcpy(at, &both, sizeof both);
    return at + 1 + is_long;
}

/* A varint field, at most WIRE_MAX_VARINT + 2 bytes. As in proto3, zero is not written. */
static inline uint8_t *wire_put_field(uint8_t *at, uint32_t field, uint64_t value) {
    if (value == 0)
        return at;
    return wire_put_varint(wire_put_varint(at, field << 3 | WIRE_VARINT), value);
}

static inline size_t wire_varint_size(uint64_t value) {
    return value ? (size_t)(63 - __builtin_clzll(value)) / 7 + 1 : 1;
}

/* A cursor for reading that never passes `end`. */
struct wire_reader {
    const uint8_t *at, *end;
    const uint8_t *start; /* of the outermost message, for offsets in errors */
};

struct wire_field {
    uint32_t number;
    uint32_t type;
    uint64_t value;            /* varint, fixed32, fixed64 */
    struct wire_reader nested; /* WIRE_BYTES */
};

bool wire_get_varint(struct wire_reader *reader, uint64_t *value);
/* Reads the next field. False at the end and if the input is malformed; only at the end reader->at
 * equals reader->end. */
bool wire_next(struct wire_reader *reader, struct wire_field *field);

#endif
