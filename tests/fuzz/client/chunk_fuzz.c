/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares client_chunk_find with protobuf-c. A chunk that it finds must be the one protobuf-c
 * decodes; bytes in which it finds none must not be what protobuf-c packs for a chunk. The first
 * two bytes of the input are the lengths of the first two pieces. */
#include "clients/c/chunk_bytes.h"

#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of the exact size, so that a sanitizer sees a read past its end. */
static struct sonde_slice piece(const uint8_t *data, size_t len) {
    char *copy = malloc(len ? len : 1);
    memcpy(copy, data, len);
    return (struct sonde_slice){copy, len};
}

static bool is_plain(const Sonde__V1__CaptureEvent *event, const uint8_t *data, size_t size) {
    size_t len = event ? sonde__v1__capture_event__get_packed_size(event) : size + 1;
    uint8_t *packed = len == size ? malloc(len + 1) : NULL;
    bool is_same = false;
    if (packed && event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK &&
        event->base.n_unknown_fields == 0) {
        sonde__v1__capture_event__pack(event, packed);
        is_same = memcmp(packed, data, size) == 0;
    }
    free(packed);
    return is_same;
}

static void compare(bool found, size_t skip, const uint8_t *data, size_t size) {
    Sonde__V1__CaptureEvent *event = sonde__v1__capture_event__unpack(NULL, size, data);
    bool is_right = found ? event && event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK &&
                                event->chunk.len == size - skip &&
                                memcmp(event->chunk.data, data + skip, size - skip) == 0
                          : !is_plain(event, data, size);
    if (!is_right)
        abort();
    if (event)
        sonde__v1__capture_event__free_unpacked(event, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t first = data[0], second = data[1], skip = 0;
    data += 2;
    size -= 2;
    first = first < size ? first : size;
    second = second < size - first ? second : size - first;
    struct sonde_slice pieces[] = {piece(data, first), piece(data + first, second),
                                   piece(data + first + second, size - first - second)};
    bool found = client_chunk_find(pieces, 3, &skip);
    compare(found, skip, data, size);
    for (size_t i = 0; i < 3; i++)
        free((char *)(uintptr_t)pieces[i].data);
    return 0;
}
