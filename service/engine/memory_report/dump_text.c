/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/dump_text.h"

#include "api/os/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (1u << 20)
#define SEALS      (F_SEAL_SHRINK | F_SEAL_WRITE)

/* The memfd must be sealed against shrinking and writing, so that no page can vanish. It must have
 * no holes either, because allocating a page could fail. */
static bool map(int fd, struct heap_text *text) {
    uint64_t size;
    if (!shared_memory_is_sealed(fd, SEALS, 1, HEAP_TEXT_MAX, &size) ||
        !shared_memory_is_whole(fd, size))
        return false;
    void *mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (mapped == MAP_FAILED)
        return false;
    text->mapped = mapped;
    text->mapped_bytes = size;
    text->bytes = (struct sonde_slice){mapped, size};
    return true;
}

static sonde_err refuse(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_TOO_LARGE,
                      "the heap dump is larger than %llu bytes; sample less often",
                      (unsigned long long)HEAP_TEXT_MAX);
}

/* For dumps that sonded itself saved; a guest's descriptor is checked when it arrives. */
static sonde_err copy(int fd, struct sonde_buf *text, struct sonde_diag *diag) {
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return sonde_fail(diag, SONDE_CORRUPT, "the heap dump is not a file");
    if (file.st_size > (off_t)HEAP_TEXT_MAX)
        return refuse(diag);
    text->limit = HEAP_TEXT_MAX;
    for (;;) {
        size_t before = text->len;
        char *room = sonde_buf_extend(text, READ_BYTES);
        ssize_t got = room ? pread(fd, room, READ_BYTES, (off_t)before) : -1;
        int error = errno;
        text->len = before + (got > 0 ? (size_t)got : 0);
        if (!room) /* it has grown in the meantime */
            return refuse(diag);
        if (got < 0 && error != EINTR)
            return sonde_fail_os(diag, error, "the heap dump cannot be read");
        if (got == 0)
            return SONDE_OK;
    }
}

sonde_err heap_text_open(int fd, struct heap_text *text, struct sonde_diag *diag) {
    *text = (struct heap_text){0};
    if (map(fd, text))
        return SONDE_OK;
    sonde_err err = copy(fd, &text->copy, diag);
    text->bytes = sonde_buf_slice(&text->copy);
    return err;
}

sonde_err heap_text_take(struct heap_text *text, struct sonde_buf *out) {
    *out = text->copy;
    text->copy = (struct sonde_buf){0};
    if (text->mapped)
        sonde_buf_append(out, text->bytes.data, text->bytes.len);
    text->bytes = (struct sonde_slice){0};
    return out->failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

void heap_text_finish(struct heap_text *text) {
    if (text->mapped)
        munmap(text->mapped, text->mapped_bytes);
    sonde_buf_finish(&text->copy);
    *text = (struct heap_text){0};
}
