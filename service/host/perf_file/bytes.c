/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/perf_file/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define WINDOW_BYTES ((size_t)1 << 20)

sonde_err perf_bytes_init(struct perf_bytes *bytes, int fd) {
    *bytes = (struct perf_bytes){.fd = fd, .left = UINT64_MAX, .window = malloc(WINDOW_BYTES)};
    return bytes->window ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void perf_bytes_finish(struct perf_bytes *bytes) {
    free(bytes->window);
    *bytes = (struct perf_bytes){.fd = -1};
}

/* False at the end. An error of the disk is an end, too. */
static bool fill(struct perf_bytes *bytes) {
    if (bytes->at > 0) {
        memmove(bytes->window, bytes->window + bytes->at, bytes->len - bytes->at);
        bytes->len -= bytes->at;
        bytes->at = 0;
    }
    size_t room = WINDOW_BYTES - bytes->len;
    if (room > bytes->left)
        room = (size_t)bytes->left;
    ssize_t got;
    do
        got = room ? read(bytes->fd, bytes->window + bytes->len, room) : 0;
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    bytes->len += (size_t)got;
    if (bytes->left != UINT64_MAX)
        bytes->left -= (uint64_t)got;
    return true;
}

const uint8_t *perf_bytes_peek(struct perf_bytes *bytes, size_t len) {
    while (bytes->len - bytes->at < len)
        if (!fill(bytes))
            return NULL;
    return bytes->window + bytes->at;
}

bool perf_bytes_skip(struct perf_bytes *bytes, uint64_t len) {
    while (len > bytes->len - bytes->at) {
        len -= bytes->len - bytes->at;
        bytes->at = bytes->len;
        if (!fill(bytes))
            return false;
    }
    bytes->at += (size_t)len;
    return true;
}

bool perf_bytes_at_end(struct perf_bytes *bytes) {
    return perf_bytes_peek(bytes, 1) == NULL;
}
