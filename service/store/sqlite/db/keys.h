/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of rows; see statements.c. Any thread. */
#ifndef SONDE_SERVICE_STORE_SQLITE_DB_KEYS_H
#define SONDE_SERVICE_STORE_SQLITE_DB_KEYS_H

#include <stdint.h>

#define KEY_PART_BITS   17
#define KEY_STREAM_BITS 44
#define KEY_MAX_STREAM  ((1u << 19) - 1)
#define KEY_MAX_STACK   UINT32_MAX
#define KEY_MIXED       0 /* the stream of chunks with windows of several streams */
#define MINUTE_S        60
#define HOUR_S          3600
#define HOUR_MINUTES    60

enum service_kind {
    SERVICE_RECORDED = 0,
    SERVICE_HOST = 1, /* a host's totals: its stacks are (process, thread) */
};

/* The first key of a minute; the first of the next minute is one beyond the last one. */
static inline int64_t key_chunk(uint32_t stream, int64_t minute) {
    return (int64_t)stream << KEY_STREAM_BITS | minute << KEY_PART_BITS;
}

static inline int64_t key_minute(int64_t chunk) {
    return chunk >> KEY_PART_BITS & ((1 << (KEY_STREAM_BITS - KEY_PART_BITS)) - 1);
}

static inline int64_t key_rollup(uint32_t stream, int64_t hour) {
    return (int64_t)stream << 21 | hour;
}

static inline int64_t key_stack(uint32_t service, uint32_t number) {
    return (int64_t)service << 32 | number;
}

#endif
