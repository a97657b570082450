/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/dump_text.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 300001u
#define ALL   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static char byte_at(size_t at) {
    return (char)('a' + at / 7 % 26);
}

/* A memfd of that size, of which the first `written` bytes are written. */
static int make(size_t size, size_t written, int seals) {
    int fd = memfd_create("dump", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *bytes = malloc(written + 1);
    for (size_t i = 0; i < written; i++)
        bytes[i] = byte_at(i);
    CHECK_INT(pwrite(fd, bytes, written, 0), ==, written);
    CHECK_INT(ftruncate(fd, (off_t)size), ==, 0);
    CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    free(bytes);
    return fd;
}

static void check_bytes(const struct heap_text *text, size_t size, size_t written) {
    CHECK_INT(text->bytes.len, ==, size);
    for (size_t i = 0; i < size; i += 997)
        CHECK_INT(text->bytes.data[i], ==, i < written ? byte_at(i) : 0);
}

/* Whether the text is mapped. */
static bool read_one(size_t size, size_t written, int seals) {
    struct heap_text text;
    struct sonde_diag diag = {0};
    int fd = make(size, written, seals);
    CHECK_INT(heap_text_open(fd, &text, &diag), ==, SONDE_OK);
    check_bytes(&text, size, written);
    bool is_mapped = text.mapped != NULL;
    CHECK_INT(text.copy.len, ==, is_mapped ? 0 : size);
    heap_text_finish(&text);
    heap_text_finish(&text);
    close(fd);
    return is_mapped;
}

TEST(a_sealed_dump_is_mapped_and_not_copied) {
    CHECK(read_one(BYTES, BYTES, ALL));
    CHECK(read_one(BYTES, BYTES, F_SEAL_SHRINK | F_SEAL_WRITE));
    CHECK(read_one(4096, 4096, ALL));
}

TEST(a_dump_that_may_be_cut_or_written_or_has_holes_is_copied) {
    CHECK(!read_one(BYTES, BYTES, 0));
    CHECK(!read_one(BYTES, BYTES, F_SEAL_SHRINK));
    CHECK(!read_one(BYTES, BYTES, F_SEAL_WRITE));
    CHECK(!read_one(10 * BYTES, BYTES, ALL));
    CHECK(!read_one(0, 0, ALL));
}

TEST(a_text_can_be_taken_out_mapped_or_copied) {
    for (int seals = 0; seals <= ALL; seals += ALL) {
        struct heap_text text;
        struct sonde_buf out;
        int fd = make(BYTES, BYTES, seals);
        CHECK_INT(heap_text_open(fd, &text, NULL), ==, SONDE_OK);
        CHECK_INT(heap_text_take(&text, &out), ==, SONDE_OK);
        heap_text_finish(&text);
        CHECK_INT(out.len, ==, BYTES);
        CHECK_INT(out.data[BYTES - 1], ==, byte_at(BYTES - 1));
        sonde_buf_finish(&out);
        close(fd);
    }
}

TEST(a_dump_past_the_limit_is_refused_before_it_is_in_memory) {
    struct heap_text text;
    struct sonde_diag diag = {0};
    int fd = memfd_create("dump", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK_INT(ftruncate(fd, (off_t)HEAP_TEXT_MAX + 1), ==, 0);
    CHECK_INT(heap_text_open(fd, &text, &diag), ==, SONDE_TOO_LARGE);
    CHECK(strstr(diag.text, "sample less often") != NULL);
    heap_text_finish(&text);
    close(fd);
}
