/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/sampler/protocol.h"

#include <errno.h>
#include <unistd.h>

_Static_assert((int)OFF_CPU_FDS <= SAMPLER_MAX_FDS, "a reply has room");

static int one_fd(int fd, int *fds, uint32_t *fd_count) {
    if (fd < 0)
        return fd;
    fds[0] = fd;
    *fd_count = 1;
    return 0;
}

static int load_off_cpu(const struct off_cpu_spec *spec, int *fds, uint32_t *fd_count) {
    int error = off_cpu_load(spec, fds);
    *fd_count = error ? 0 : OFF_CPU_FDS;
    return error;
}

int sampler_work(const struct sampler_request *request, int fds[SAMPLER_MAX_FDS],
                 uint32_t *fd_count) {
    *fd_count = 0;
    if (request->version != SAMPLER_VERSION)
        return -EPROTO;
    switch (request->kind) {
    case SAMPLER_HELLO:
        return 0;
    case SAMPLER_EVENT:
        return one_fd(perf_event_create(&request->event), fds, fd_count);
    case SAMPLER_FILE:
        return one_fd(process_file_open_own((enum process_file)request->file, request->pid,
                                            request->start, request->end),
                      fds, fd_count);
    case SAMPLER_OFF_CPU:
        return load_off_cpu(&request->off_cpu, fds, fd_count);
    case SAMPLER_TRY_BPF:
        return off_cpu_try();
    default:
        return -EINVAL;
    }
}
