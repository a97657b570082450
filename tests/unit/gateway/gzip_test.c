/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http/gzip.h"

#include "tests/unit/check.h"

#include <stdlib.h>
#include <zlib.h>

static size_t unzip(struct sonde_buf *packed, char *out, size_t size) {
    z_stream z = {.next_in = (Bytef *)packed->data,
                  .avail_in = (uInt)packed->len,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)size};
    CHECK_INT(inflateInit2(&z, 15 + 16), ==, Z_OK);
    CHECK_INT(inflate(&z, Z_FINISH), ==, Z_STREAM_END);
    inflateEnd(&z);
    return z.total_out;
}

TEST(pieces_of_any_size_come_back_whole) {
    static char in[300000], back[400000];
    struct sonde_buf packed = {0};
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)((i * 2654435761u) >> 23);
    struct gzip_stream *stream = gzip_stream_create();
    for (size_t at = 0, step = 1; at < sizeof in; at += step, step = step * 7 + 1)
        gzip_stream_add(
            stream, (struct sonde_slice){in + at, step < sizeof in - at ? step : sizeof in - at},
            false, &packed);
    gzip_stream_add(stream, (struct sonde_slice){"", 0}, true, &packed);
    CHECK(!packed.failed);
    CHECK_INT(unzip(&packed, back, sizeof back), ==, sizeof in);
    CHECK(memcmp(in, back, sizeof in) == 0);
    gzip_stream_destroy(stream);
    sonde_buf_finish(&packed);
}

TEST(an_empty_body_is_a_valid_file) {
    char back[8];
    struct sonde_buf packed = {0};
    struct gzip_stream *stream = gzip_stream_create();
    gzip_stream_add(stream, (struct sonde_slice){"", 0}, true, &packed);
    CHECK_INT(unzip(&packed, back, sizeof back), ==, 0);
    gzip_stream_destroy(stream);
    gzip_stream_destroy(NULL);
    sonde_buf_finish(&packed);
}
