/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a CaptureEvent that holds only a chunk:
 *
 *     tag of field 3, wire type 2 | length, a varint of at most 5 bytes | the chunk
 *
 * The length must be that of the remaining bytes. A message in which more follows, or which is cut
 * short, is of another form. */
#include "clients/c/chunk_bytes.h"

#define CHUNK_TAG       (3 << 3 | 2) /* CaptureEvent.chunk in profiler.proto */
#define MAX_VARINT      5
#define LAST_BYTE_LIMIT 0x08 /* the fifth byte must be below this: the length fits in 31 bits */

struct cursor {
    const struct sonde_slice *pieces;
    size_t count, at; /* `at` is the position in the first piece */
};

/* Returns -1 at the end. */
static int next_byte(struct cursor *cursor) {
    while (cursor->count && cursor->at == cursor->pieces->len) {
        cursor->pieces++;
        cursor->count--;
        cursor->at = 0;
    }
    return cursor->count ? (unsigned char)cursor->pieces->data[cursor->at++] : -1;
}

bool client_chunk_find(const struct sonde_slice *pieces, size_t count, size_t *skip) {
    struct cursor cursor = {pieces, count, 0};
    size_t total = 0, len = 0;
    for (size_t i = 0; i < count; i++)
        total += pieces[i].len;
    if (next_byte(&cursor) != CHUNK_TAG)
        return false;
    for (size_t i = 0; i < MAX_VARINT; i++) {
        int byte = next_byte(&cursor);
        if (byte < 0 || (i == MAX_VARINT - 1 && byte >= LAST_BYTE_LIMIT))
            return false;
        len |= (size_t)(byte & 0x7f) << (7 * i);
        *skip = i + 2;
        if (!(byte & 0x80))
            return len == total - *skip;
    }
    return false;
}
