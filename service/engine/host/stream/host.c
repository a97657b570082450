/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

const struct ring_ops perf_ring_ops = {
    .open = rings_open,
    .close = rings_close,
    .start = rings_start,
    .stop = rings_stop,
    .set_period = rings_set_period,
    .add_process = rings_add_process,
    .drain = rings_drain,
    .poll_fd = rings_poll_fd,
    .counts = rings_counts,
    .total = rings_total,
};

sonde_err host_create(struct engine *engine, struct sonde_diag *diag) {
    struct host *host = calloc(1, sizeof *host);
    if (!host)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    engine->host = host;
    host->ops = &perf_ring_ops;
    host->views = unwind_views_create(engine->unwind);
    host->kernel = mapping_create_kernel();
    host->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &engine->host};
    if (host->views && host->kernel && host->epoll_fd >= 0 &&
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, host->epoll_fd, &event) == 0)
        return SONDE_OK;
    return sonde_fail_os(diag, errno, "cannot set up sampling from outside");
}

void host_destroy(struct engine *engine) {
    struct host *host = engine->host;
    if (!host)
        return;
    mapping_release(host->kernel);
    unwind_views_destroy(host->views);
    if (host->epoll_fd >= 0)
        close(host->epoll_fd);
    free(host);
    engine->host = NULL;
}
