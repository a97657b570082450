/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/perf_file/parts.h"

#include "tests/unit/check.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#define PLAIN_BYTES ((size_t)8 << 20)

static void put(int fd, const void *bytes, size_t len) {
    CHECK_INT(write(fd, bytes, len), ==, len);
}

static void ignore(void *context, const struct perf_file_record *record) {
    (void)record;
    ++*(uint64_t *)context;
}

/* A file of a pipe: one event, and a small record that decompresses to 8 MiB of records of a kind
 * that nobody needs. */
static int write_bomb(void) {
    static char plain[PLAIN_BYTES];
    static char packed[65000];
    const uint64_t start[] = {0x32454c4946524550ull, 16};
    struct {
        struct perf_event_header header;
        struct perf_event_attr attr;
    } event = {{.type = PERF_HEADER_ATTR, .size = sizeof event}, {.size = sizeof event.attr}};
    const struct perf_event_header filler = {.type = PERF_RECORD_THROTTLE, .size = 32768};
    for (size_t at = 0; at < sizeof plain; at += filler.size)
        memcpy(plain + at, &filler, sizeof filler);
    size_t len = ZSTD_compress(packed, sizeof packed, plain, sizeof plain, 3);
    CHECK(!ZSTD_isError(len));
    const struct perf_event_header header = {.type = PERF_COMPRESSED,
                                             .size = (uint16_t)(sizeof header + len)};
    int fd = memfd_create("perf.data", MFD_CLOEXEC);
    CHECK(fd >= 0);
    put(fd, start, sizeof start);
    put(fd, &event, sizeof event);
    put(fd, &header, sizeof header);
    put(fd, packed, len);
    CHECK_INT(lseek(fd, 0, SEEK_SET), ==, 0);
    return fd;
}

static struct perf_file *open_bomb(int fd) {
    struct perf_file *file;
    CHECK_INT(perf_file_open(fd, &file, NULL), ==, SONDE_OK);
    return file;
}

TEST(a_small_record_that_becomes_a_large_one_is_read_in_pieces) {
    uint64_t delivered = 0;
    int fd = write_bomb();
    struct perf_file *file = open_bomb(fd);
    CHECK_INT(perf_file_read(file, ignore, &delivered, NULL), ==, SONDE_OK);
    CHECK(!file->notes.is_broken && !file->notes.is_truncated);
    CHECK_INT(file->plain_bytes, ==, PLAIN_BYTES);
    CHECK(file->plain.capacity < PLAIN_BYTES / 4);
    CHECK_INT(delivered, ==, 0);
    perf_file_close(file);
    close(fd);
}

TEST(past_the_limit_of_decompressed_bytes_the_file_counts_as_damaged) {
    uint64_t delivered = 0;
    int fd = write_bomb();
    struct perf_file *file = open_bomb(fd);
    file->plain_limit = PLAIN_BYTES / 2;
    CHECK_INT(perf_file_read(file, ignore, &delivered, NULL), ==, SONDE_OK);
    CHECK(file->notes.is_broken);
    CHECK(file->plain_bytes < PLAIN_BYTES);
    perf_file_close(file);
    close(fd);
}
