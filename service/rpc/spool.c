/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/spool.h"

#include "proto/sonde/v1/profiler.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)128 << 10)

static bool open_file(struct rpc_spool *spool) {
    if (spool->fd < 0 && spool->dir)
        spool->fd = open(spool->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (spool->fd < 0)
        spool->fd = memfd_create("sonde-result", MFD_CLOEXEC);
    if (spool->fd < 0)
        spool->err = sonde_fail_os(&spool->diag, errno, "the result cannot be written");
    return spool->fd >= 0;
}

static bool append(void *context, const char *bytes, size_t len) {
    struct rpc_spool *spool = context;
    if (spool->err || !open_file(spool))
        return false;
    if (spool->len + len > spool->limit) {
        spool->err =
            sonde_fail(&spool->diag, SONDE_TOO_LARGE, "the drawing is larger than %llu bytes",
                       (unsigned long long)spool->limit);
        return false;
    }
    for (size_t done = 0; done < len;) {
        ssize_t put = write(spool->fd, bytes + done, len - done);
        if (put < 0 && errno != EINTR) {
            spool->err = sonde_fail_os(&spool->diag, errno, "the result cannot be written");
            return false;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    spool->len += len;
    return true;
}

void rpc_spool_init(struct rpc_spool *spool, const char *dir, uint64_t limit) {
    *spool = (struct rpc_spool){.fd = -1, .dir = dir, .limit = limit};
    spool->sink = (struct sonde_draw_sink){append, spool};
}

void rpc_spool_finish(struct rpc_spool *spool) {
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}

sonde_err rpc_spool_end(struct rpc_spool *spool, struct sonde_buf *bytes, struct sonde_diag *diag) {
    if (spool->fd >= 0 && !spool->err && append(spool, bytes->data, bytes->len))
        sonde_buf_finish(bytes);
    if (spool->err && diag)
        *diag = spool->diag;
    return spool->err;
}

sonde_err rpc_spool_send(struct rpc_spool *spool, struct rpc_call *call, uint64_t *sent,
                         struct sonde_diag *diag) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    uint64_t left = spool->len - *sent;
    uint8_t *bytes = malloc(CHUNK_BYTES);
    if (!bytes)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a part of the result");
    ssize_t got =
        pread(spool->fd, bytes, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES, (off_t)*sent);
    if (got <= 0) {
        free(bytes);
        return sonde_fail_os(diag, got < 0 ? errno : EIO, "the result cannot be read");
    }
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
    event.chunk.data = bytes;
    event.chunk.len = (size_t)got;
    *sent += (uint64_t)got;
    rpc_send(call, &event.base);
    free(bytes);
    return SONDE_OK;
}
