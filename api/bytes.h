/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes: borrowed (slice), owned and growing (buf), and everything of one request at once (arena).
 *
 * A slice never owns. A buf grows by doubling up to its limit; the first append that fails (out of
 * memory, or over the limit) sets `failed`, later appends do nothing, and the caller looks once, at
 * the end. An arena hands out zeroed memory that is freed all together. Thread safety: one thread
 * at a time per object. */
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

/* Owned bytes. Zeroed memory is an empty buf with no limit. data[len] is always 0 once anything was
 * appended. */
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
/* Grows by len uninitialised bytes and gives their start; NULL when failed. Valid until the next
 * append. */
char *sonde_buf_extend(struct sonde_buf *buf, size_t len);
struct sonde_slice sonde_buf_slice(const struct sonde_buf *buf);
/* Hands the bytes (to be freed with free) to the caller and leaves an empty buf. */
char *sonde_buf_take(struct sonde_buf *buf, size_t *len);
void sonde_buf_finish(struct sonde_buf *buf);

/* Memory of one request or one capture. Zeroed memory is an empty arena. */
struct sonde_arena {
    struct sonde_arena_block *blocks;
    size_t used;
    size_t total; /* bytes handed out, for bounds */
};

/* Zeroed, aligned for any type; NULL when out of memory. */
void *sonde_arena_alloc(struct sonde_arena *arena, size_t size);
char *sonde_arena_dup(struct sonde_arena *arena, const char *data, size_t len); /* adds a NUL */
void sonde_arena_finish(struct sonde_arena *arena);

#endif
