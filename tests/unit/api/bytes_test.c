/* SPDX-License-Identifier: Apache-2.0 */
#include "api/bytes.h"
#include "tests/unit/check.h"

#include <stdlib.h>

TEST(buf_grows_and_stays_terminated) {
    struct sonde_buf buf = {0};
    for (int i = 0; i < 10000; i++)
        sonde_buf_printf(&buf, "%d,", i % 10);
    CHECK_INT(buf.len, ==, 20000);
    CHECK_INT(buf.data[buf.len], ==, 0);
    CHECK(!buf.failed);
    sonde_buf_finish(&buf);
    CHECK(buf.data == NULL);
}

TEST(buf_over_its_limit_stays_failed) {
    struct sonde_buf buf = {.limit = 4};
    sonde_buf_puts(&buf, "abcd");
    CHECK(!buf.failed);
    sonde_buf_putc(&buf, 'e');
    CHECK(buf.failed);
    sonde_buf_puts(&buf, "");
    CHECK_STR(buf.data, "abcd");
    sonde_buf_finish(&buf);
}

TEST(buf_take_returns_the_bytes_and_empties_the_buf) {
    struct sonde_buf buf = {0};
    sonde_buf_puts(&buf, "bytes");
    size_t len = 0;
    char *data = sonde_buf_take(&buf, &len);
    CHECK_INT(len, ==, 5);
    CHECK_STR(data, "bytes");
    CHECK_INT(sonde_buf_slice(&buf).len, ==, 0);
    free(data);
}

TEST(arena_returns_zeroed_aligned_memory_of_any_size) {
    struct sonde_arena arena = {0};
    for (size_t size = 1; size < 300000; size = size * 3 + 1) {
        char *bytes = sonde_arena_alloc(&arena, size);
        CHECK(bytes != NULL);
        CHECK_INT((uintptr_t)bytes % 16, ==, 0);
        for (size_t i = 0; i < size; i++)
            CHECK_INT(bytes[i], ==, 0);
        memset(bytes, 0xaa, size);
    }
    CHECK_STR(sonde_arena_dup(&arena, "name and more", 4), "name");
    sonde_arena_finish(&arena);
    CHECK(arena.blocks == NULL);
}

TEST(slice_equals_compares_whole_texts) {
    struct sonde_slice slice = {"profile?x", 7};
    CHECK(sonde_slice_equals(slice, "profile"));
    CHECK(!sonde_slice_equals(slice, "profil"));
    CHECK(!sonde_slice_equals(slice, "profile?"));
}
