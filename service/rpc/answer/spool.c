/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/answer/spool.h"

#include "service/rpc/answer/chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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
            sonde_fail(&spool->diag, SONDE_TOO_LARGE,
                       "the result is larger than the limit of %llu bytes; ask for another format",
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

bool rpc_spool_has_next(const struct rpc_spool *spool) {
    return spool->sent < spool->len;
}

/* pread, not mmap: a failing disk returns an error here, but would raise SIGBUS on a mapping. */
sonde_err rpc_spool_send(struct rpc_spool *spool, struct rpc_call *call, struct sonde_diag *diag) {
    uint64_t left = spool->len - spool->sent;
    size_t wanted = left < RPC_MAX_CHUNK_BYTES ? (size_t)left : RPC_MAX_CHUNK_BYTES;
    grpc_slice bytes = grpc_slice_malloc(wanted);
    ssize_t got = pread(spool->fd, GRPC_SLICE_START_PTR(bytes), wanted, (off_t)spool->sent);
    if (got <= 0) {
        grpc_slice_unref(bytes);
        return sonde_fail_os(diag, got < 0 ? errno : EIO, "the result cannot be read");
    }
    GRPC_SLICE_SET_LENGTH(bytes, got);
    spool->sent += (uint64_t)got;
    rpc_send_chunk(call, bytes);
    return SONDE_OK;
}
