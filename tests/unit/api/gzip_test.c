/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gzip.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LARGEST ((size_t)3 << 20)

static uint64_t state = 1;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* noise: of 256 bytes, how many are random. */
static void fill(char *bytes, size_t len, unsigned noise) {
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(next() % 256 < noise ? next() : i / 7 % 61);
}

static struct sonde_buf pack(const char *bytes, size_t len, int level, size_t largest_piece) {
    struct sonde_buf out = {0};
    struct sonde_gzip_writer *writer = sonde_gzip_writer_create(level, &out);
    CHECK(writer != NULL);
    for (size_t at = 0, piece; at < len; at += piece) {
        piece = 1 + next() % largest_piece;
        piece = piece < len - at ? piece : len - at;
        sonde_gzip_writer_add(writer, (struct sonde_slice){bytes + at, piece});
    }
    CHECK_INT(sonde_gzip_writer_end(writer), ==, SONDE_OK);
    sonde_gzip_writer_destroy(writer);
    return out;
}

/* Checks with zlib that packed is exactly one complete member with these contents. */
static void check_holds(const struct sonde_buf *packed, const char *bytes, size_t len) {
    char *room = malloc(len + 1);
    z_stream stream = {.next_in = (Bytef *)packed->data,
                       .avail_in = (uInt)packed->len,
                       .next_out = (Bytef *)room,
                       .avail_out = (uInt)len + 1};
    CHECK_INT(inflateInit2(&stream, 31), ==, Z_OK);
    CHECK_INT(inflate(&stream, Z_FINISH), ==, Z_STREAM_END);
    CHECK_INT(stream.avail_in, ==, 0);
    CHECK_INT(stream.total_out, ==, len);
    CHECK(len == 0 || memcmp(room, bytes, len) == 0);
    inflateEnd(&stream);
    free(room);
}

TEST(gzip_writes_any_bytes_in_any_pieces_as_one_member) {
    static const unsigned noises[] = {0, 3, 40, 256};
    static const size_t sizes[] = {0, 1, 100, 32768, 65536, 65537, 300000, LARGEST};
    static const size_t pieces[] = {7, 4096, 100000, LARGEST};
    char *bytes = malloc(LARGEST);
    for (unsigned n = 0; n < 4; n++)
        for (unsigned s = 0; s < 8; s++)
            for (unsigned p = sizes[s] > 300000; p < 4; p++) {
                fill(bytes, sizes[s], noises[n]);
                struct sonde_buf packed = pack(bytes, sizes[s], 1 + (int)(p % 3), pieces[p]);
                check_holds(&packed, bytes, sizes[s]);
                sonde_buf_finish(&packed);
            }
    free(bytes);
}

TEST(gzip_compresses_repetitive_bytes_well) {
    char *bytes = malloc(LARGEST);
    fill(bytes, LARGEST, 0);
    for (int level = 1; level <= 9; level++) {
        struct sonde_buf packed = pack(bytes, LARGEST, level, 32768);
        CHECK_INT(packed.len, <, LARGEST / 50);
        sonde_buf_finish(&packed);
    }
    free(bytes);
}

TEST(gzip_stops_at_the_limit_and_needs_no_spare_bytes) {
    char *bytes = malloc(LARGEST);
    fill(bytes, LARGEST, 40);
    struct sonde_buf whole = pack(bytes, LARGEST, 1, LARGEST);
    for (size_t less = 0; less < 2; less++) {
        struct sonde_buf out = {.limit = whole.len - less};
        struct sonde_gzip_writer *writer = sonde_gzip_writer_create(1, &out);
        sonde_gzip_writer_add(writer, (struct sonde_slice){bytes, LARGEST});
        CHECK_INT(sonde_gzip_writer_end(writer), ==, less ? SONDE_TOO_LARGE : SONDE_OK);
        sonde_gzip_writer_destroy(writer);
        sonde_buf_finish(&out);
    }
    sonde_buf_finish(&whole);
    free(bytes);
}

TEST(gzip_reads_back_what_it_wrote_and_stops_at_the_limit) {
    char *bytes = malloc(LARGEST);
    fill(bytes, LARGEST, 3);
    struct sonde_buf file = pack(bytes, LARGEST, 1, LARGEST), out = {0}, cut = {0};
    struct sonde_slice slice = sonde_buf_slice(&file);
    CHECK(sonde_gzip_is(slice));
    CHECK_INT(sonde_gzip_read(slice, LARGEST, &out, NULL), ==, SONDE_OK);
    CHECK_INT(out.len, ==, LARGEST);
    CHECK(memcmp(out.data, bytes, LARGEST) == 0);
    CHECK_INT(sonde_gzip_read(slice, LARGEST - 1, &cut, NULL), ==, SONDE_TOO_LARGE);
    sonde_buf_finish(&file);
    sonde_buf_finish(&out);
    sonde_buf_finish(&cut);
    free(bytes);
}
