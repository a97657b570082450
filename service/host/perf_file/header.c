/* SPDX-License-Identifier: Apache-2.0
 *
 * A perf.data is
 *
 *     magic, size, attr_size; sections attrs, data, types; bits of features     104 bytes
 *     attrs:    perf_event_attr, section of its ids;  one an event
 *     data:     records
 *     sections of the features, one a bit, directly behind data
 *
 * and in a pipe magic, 16, and records, some of which have what the sections have in a file. */
#include "service/host/perf_file/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define MAGIC         0x32454c4946524550ull /* "PERFILE2" */
#define MAGIC_SWAPPED 0x50455246494c4532ull
#define MAGIC_OLD     0x454c494646524550ull /* "PERFFILE" */
#define HEADER_BYTES  104u
#define PIPE_BYTES    16u

struct section {
    uint64_t offset, bytes;
};

struct header {
    uint64_t magic, size, attr_size;
    struct section attrs, data, types;
    uint64_t features[4];
};

static sonde_err check_magic(uint64_t magic, struct sonde_diag *diag) {
    if (magic == MAGIC)
        return SONDE_OK;
    if (magic == MAGIC_SWAPPED)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "it was recorded on a machine with another byte order; read it there");
    if (magic == MAGIC_OLD)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a perf of before 2010 wrote it; record it again with a newer one");
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a perf.data file");
}

/* Reads a section into `bytes`. False: it is outside of the file, or too large. */
static bool read_section(int fd, struct section from, struct sonde_buf *bytes) {
    struct stat about;
    if (fstat(fd, &about) != 0 || from.bytes > PERF_MAX_SECTION ||
        from.offset > (uint64_t)about.st_size || from.bytes > (uint64_t)about.st_size - from.offset)
        return false;
    char *to = from.bytes ? sonde_buf_extend(bytes, (size_t)from.bytes) : NULL;
    size_t have = 0;
    while (to && have < from.bytes) {
        ssize_t got = pread(fd, to + have, (size_t)from.bytes - have, (off_t)(from.offset + have));
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        have += got > 0 ? (size_t)got : 0;
    }
    return have == from.bytes;
}

static sonde_err add_event(struct perf_file *file, struct sonde_slice row,
                           struct sonde_diag *diag) {
    struct section where;
    struct sonde_buf ids = {0};
    struct sonde_slice attr = {row.data, row.len - sizeof where};
    memcpy(&where, row.data + attr.len, sizeof where);
    sonde_err err = SONDE_CORRUPT;
    file->id_bytes += where.bytes; /* rows may name one section again and again */
    if (file->id_bytes <= PERF_MAX_IDS * sizeof(uint64_t) && read_section(file->fd, where, &ids))
        err = perf_events_add(&file->events, attr, sonde_buf_slice(&ids));
    sonde_buf_finish(&ids);
    return err ? sonde_fail(diag, err, "its list of events cannot be read") : SONDE_OK;
}

static sonde_err read_events(struct perf_file *file, const struct header *header,
                             struct sonde_diag *diag) {
    struct sonde_buf rows = {0};
    size_t row = (size_t)header->attr_size;
    sonde_err err = SONDE_OK;
    if (header->attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct section) ||
        header->attr_size > 4096 || !read_section(file->fd, header->attrs, &rows) || rows.len < row)
        err = sonde_fail(diag, SONDE_CORRUPT, "its list of events cannot be read");
    for (size_t at = 0; at + row <= rows.len && !err; at += row)
        err = add_event(file, (struct sonde_slice){rows.data + at, row}, diag);
    sonde_buf_finish(&rows);
    return err;
}

/* A feature that cannot be read is missing, as in a file whose perf was killed. */
static sonde_err read_features(struct perf_file *file, const struct header *header,
                               struct sonde_diag *diag) {
    uint64_t at = header->data.offset + header->data.bytes;
    sonde_err err = SONDE_OK;
    for (uint32_t feature = 0; feature < PERF_FEATURES && !err; feature++) {
        struct section where;
        struct sonde_buf bytes = {0};
        if (!(header->features[feature / 64] >> feature % 64 & 1))
            continue;
        if (pread(file->fd, &where, sizeof where, (off_t)at) == (ssize_t)sizeof where &&
            read_section(file->fd, where, &bytes))
            err = perf_features_read(&file->features, &file->events, feature,
                                     sonde_buf_slice(&bytes), diag);
        at += sizeof where;
        sonde_buf_finish(&bytes);
    }
    return err;
}

static sonde_err read_file_header(struct perf_file *file, struct sonde_diag *diag) {
    struct header header;
    struct stat about;
    if (pread(file->fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        header.size != HEADER_BYTES || fstat(file->fd, &about) != 0)
        return sonde_fail(diag, SONDE_CORRUPT, "its header is damaged");
    sonde_err err = read_events(file, &header, diag);
    uint64_t size = (uint64_t)about.st_size;
    bool is_whole = header.data.bytes > 0 && header.data.offset <= size &&
                    header.data.bytes <= size - header.data.offset;
    if (!err && is_whole)
        err = read_features(file, &header, diag);
    if (err)
        return err;
    file->notes.is_truncated = !is_whole;
    if (header.data.offset < HEADER_BYTES || header.data.offset > size ||
        lseek(file->fd, (off_t)header.data.offset, SEEK_SET) < 0)
        return sonde_fail(diag, SONDE_CORRUPT, "it ends before its first record");
    file->bytes.at = file->bytes.len = 0;
    file->bytes.left = is_whole ? header.data.bytes : UINT64_MAX;
    return SONDE_OK;
}

static sonde_err read_header(struct perf_file *file, struct sonde_diag *diag) {
    uint64_t start[2];
    const uint8_t *bytes = perf_bytes_peek(&file->bytes, sizeof start);
    if (!bytes)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a perf.data file");
    memcpy(start, bytes, sizeof start);
    sonde_err err = check_magic(start[0], diag);
    file->is_pipe = start[1] == PIPE_BYTES;
    if (err || !file->is_pipe)
        return err ? err : read_file_header(file, diag);
    return perf_bytes_skip(&file->bytes, PIPE_BYTES) ? SONDE_OK : SONDE_CORRUPT;
}

sonde_err perf_file_open(int fd, struct perf_file **made, struct sonde_diag *diag) {
    struct perf_file *file = calloc(1, sizeof *file);
    *made = NULL;
    if (!file)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    file->fd = fd;
    file->order.limit = PERF_FILE_QUEUE_BYTES;
    file->plain_limit = PERF_FILE_PLAIN_BYTES;
    perf_events_init(&file->events);
    perf_features_init(&file->features);
    sonde_err err = perf_bytes_init(&file->bytes, fd);
    if (err)
        err = sonde_fail(diag, err, "out of memory");
    else
        err = read_header(file, diag);
    if (err)
        perf_file_close(file);
    else
        *made = file;
    return err;
}

void perf_file_close(struct perf_file *file) {
    if (!file)
        return;
    perf_bytes_finish(&file->bytes);
    perf_events_finish(&file->events);
    perf_features_finish(&file->features);
    perf_order_finish(&file->order);
    sonde_buf_finish(&file->plain);
    ZSTD_freeDCtx(file->zstd);
    free(file);
}
