/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/c/chunk_bytes.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

static bool find(const char *bytes, size_t len, size_t *skip) {
    const struct sonde_slice whole = {bytes, len};
    return client_chunk_find(&whole, 1, skip);
}

#define FIND(text, skip) find(text, sizeof text - 1, skip)

TEST(chunks_packed_by_protobuf_are_found_whatever_their_length) {
    static const size_t lens[] = {0, 1, 127, 128, 16383, 16384, 300000, 2097151, 2097152};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
        event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
        event.chunk.len = lens[i];
        event.chunk.data = calloc(1, lens[i] + 1);
        size_t len = sonde__v1__capture_event__get_packed_size(&event), skip = 0;
        uint8_t *packed = malloc(len);
        sonde__v1__capture_event__pack(&event, packed);
        CHECK(find((char *)packed, len, &skip));
        CHECK_INT(len - skip, ==, lens[i]);
        free(packed);
        free(event.chunk.data);
    }
}

TEST(pieces_may_end_anywhere) {
    static const char bytes[] = "\x1a\x85\x00hello"; /* the length has more bytes than necessary */
    size_t len = sizeof bytes - 1, skip;
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            const struct sonde_slice pieces[] = {{"", 0},
                                                 {bytes, first},
                                                 {bytes + first, second - first},
                                                 {bytes + second, len - second}};
            CHECK(client_chunk_find(pieces, 4, &skip));
            CHECK_INT(skip, ==, 3);
        }
}

TEST(truncated_chunks_and_chunks_with_trailing_bytes_are_not_found) {
    size_t skip;
    CHECK(FIND("\x1a\x05hello", &skip));
    CHECK(!FIND("\x1a\x05hell", &skip));
    CHECK(!FIND("\x1a\x05hello\x1a", &skip));
    CHECK(!FIND("\x1a\x05hello\x1a\x05world", &skip));
    CHECK(!FIND("\x1a\x85", &skip));
    CHECK(!FIND("\x1a", &skip));
    CHECK(!FIND("", &skip));
    CHECK(!client_chunk_find(NULL, 0, &skip));
}

TEST(other_fields_and_other_wire_types_are_not_found) {
    size_t skip;
    CHECK(!FIND("\x12\x05hello", &skip));
    CHECK(!FIND("\x18\x05hello", &skip));
    CHECK(!FIND("\x9a\x00\x05hello", &skip));
}

TEST(chunks_with_impossible_lengths_are_not_found) {
    size_t skip;
    CHECK(FIND("\x1a\x82\x80\x80\x80\x00hi", &skip));
    CHECK(!FIND("\x1a\x82\x80\x80\x80\x10hi", &skip));
    CHECK(!FIND("\x1a\x82\x80\x80\x80\x80\x00hi", &skip));
    CHECK(!FIND("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01hi", &skip));
}
