/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte sequences: borrowed (slice) and owned (buf), and an arena for the memory of one request.
 *
 * A buf doubles its capacity as needed, up to its limit. The first append that fails, because of
 * the limit or because memory runs out, sets `failed`; later appends do nothing. So the caller
 * checks `failed` once, at the end. Thread safety: one thread at a time per object. */
#ifndef SONDE_API_BYTES_H
#define SONDE_API_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. */
struct sonde_slice {
    const char *data;
    size_t len;
};

struct sonde_slice sonde_slice_of(const char *text);
bool sonde_slice_equals(struct sonde_slice slice, const char *text);

/* Owned bytes. Zeroed memory is an empty buf without a limit. After the first append data[len] is
 * always 0. */
struct sonde_buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t limit; /* 0 = none */
    bool failed;
};

void sonde_buf_append(struct sonde_buf *buf, const void *data, size_t len);
void sonde_buf_puts(struct sonde_buf *buf, const char *text);
void sonde_buf_putc(struct sonde_buf *buf, char byte);
void sonde_buf_printf(struct sonde_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends len uninitialised bytes and returns their start, valid until the next append; NULL when
 * it failed. */
char *sonde_buf_extend(struct sonde_buf *buf, size_t len);
struct sonde_slice sonde_buf_slice(const struct sonde_buf *buf);
/* Returns the bytes, which the caller frees with free, and leaves the buf empty. */
char *sonde_buf_take(struct sonde_buf *buf, size_t *len);
void sonde_buf_finish(struct sonde_buf *buf);

/* Memory that is freed all at once. Zeroed memory is an empty arena. */
struct sonde_arena {
    struct sonde_arena_block *blocks;
    size_t used;
    size_t total; /* bytes allocated so far, for callers that limit them */
};

/* Returns zeroed memory, aligned for any type; NULL when out of memory. */
void *sonde_arena_alloc(struct sonde_arena *arena, size_t size);
char *sonde_arena_dup(struct sonde_arena *arena, const char *data, size_t len); /* adds a NUL */
void sonde_arena_finish(struct sonde_arena *arena);

#endif
