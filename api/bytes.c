/* SPDX-License-Identifier: Apache-2.0 */
#include "api/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256
#define FIRST_BLOCK    960 /* enough for most requests; four fit in a page */
#define LARGEST_BLOCK  (64u << 10)

struct sonde_arena_block {
    struct sonde_arena_block *next;
    size_t capacity;
    _Alignas(max_align_t) char bytes[];
};

struct sonde_slice sonde_slice_of(const char *text) {
    return (struct sonde_slice){text ? text : "", text ? strlen(text) : 0};
}

bool sonde_slice_equals(struct sonde_slice slice, const char *text) {
    return strlen(text) == slice.len && memcmp(slice.data, text, slice.len) == 0;
}

/* Makes the capacity sufficient for len more bytes and the NUL. */
static bool buf_reserve(struct sonde_buf *buf, size_t len) {
    if (buf->failed || len >= SIZE_MAX - buf->len - 1 ||
        (buf->limit && buf->len + len > buf->limit)) {
        buf->failed = true;
        return false;
    }
    size_t needed = buf->len + len + 1;
    if (needed <= buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

char *sonde_buf_extend(struct sonde_buf *buf, size_t len) {
    if (!buf_reserve(buf, len))
        return NULL;
    char *start = buf->data + buf->len;
    buf->len += len;
    buf->data[buf->len] = 0;
    return start;
}

void sonde_buf_append(struct sonde_buf *buf, const void *data, size_t len) {
    char *start = sonde_buf_extend(buf, len);
    if (start && len)
        memcpy(start, data, len);
}

void sonde_buf_puts(struct sonde_buf *buf, const char *text) {
    sonde_buf_append(buf, text, strlen(text));
}

void sonde_buf_putc(struct sonde_buf *buf, char byte) {
    if (buf->len + 1 >= buf->capacity || buf->limit || buf->failed) {
        sonde_buf_append(buf, &byte, 1);
        return;
    }
    buf->data[buf->len++] = byte;
    buf->data[buf->len] = 0;
}

void sonde_buf_printf(struct sonde_buf *buf, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (len < 0) {
        buf->failed = true;
    } else {
        char *start = sonde_buf_extend(buf, (size_t)len);
        if (start)
            vsnprintf(start, (size_t)len + 1, format, again);
    }
    va_end(again);
}

struct sonde_slice sonde_buf_slice(const struct sonde_buf *buf) {
    return (struct sonde_slice){buf->data ? buf->data : "", buf->len};
}

char *sonde_buf_take(struct sonde_buf *buf, size_t *len) {
    char *data = buf->data;
    *len = buf->len;
    *buf = (struct sonde_buf){.limit = buf->limit};
    return data;
}

void sonde_buf_finish(struct sonde_buf *buf) {
    free(buf->data);
    *buf = (struct sonde_buf){0};
}

/* Blocks grow from small to large. They come from malloc, because calloc maps fresh pages for large
 * blocks, which costs more than clearing the part that is used. */
static struct sonde_arena_block *arena_grow(struct sonde_arena *arena, size_t size) {
    size_t capacity = arena->blocks ? arena->blocks->capacity * 4 : FIRST_BLOCK;
    if (capacity > LARGEST_BLOCK)
        capacity = LARGEST_BLOCK;
    if (capacity < size)
        capacity = size;
    struct sonde_arena_block *block = malloc(sizeof *block + capacity);
    if (!block)
        return NULL;
    block->capacity = capacity;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
    return block;
}

void *sonde_arena_alloc(struct sonde_arena *arena, size_t size) {
    const size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) & ~(align - 1);
    struct sonde_arena_block *block = arena->blocks;
    if (!block || block->capacity - arena->used < size)
        block = arena_grow(arena, size);
    if (!block)
        return NULL;
    void *start = block->bytes + arena->used;
    arena->used += size;
    arena->total += size;
    return memset(start, 0, size);
}

char *sonde_arena_dup(struct sonde_arena *arena, const char *data, size_t len) {
    char *copy = sonde_arena_alloc(arena, len + 1);
    if (copy && len)
        memcpy(copy, data, len);
    return copy;
}

void sonde_arena_finish(struct sonde_arena *arena) {
    struct sonde_arena_block *block = arena->blocks;
    while (block) {
        struct sonde_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct sonde_arena){0};
}
