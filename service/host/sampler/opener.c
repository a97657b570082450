/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/sampler/opener.h"

#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/message.h"

#include "api/os/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool opener_is_possible(void) {
    return (capabilities_permitted() & capabilities_of_opener()) != 0;
}

static bool confine(void) {
    struct sonde_diag diag = {0};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    sonde_err err = capabilities_use_only(capabilities_of_opener())
                        ? confine_process(CONFINE_OPENER, &diag)
                        : sonde_fail(&diag, SONDE_PERMISSION_DENIED,
                                     "the kernel does not let it give up capabilities");
    if (err)
        fprintf(stderr, "sonde-sampler: perf events are not opened with CAP_SYS_ADMIN: %s\n",
                sonde_diag_text(&diag, err));
    return err == SONDE_OK;
}

static void serve(int socket) {
    struct perf_event_spec spec;
    ssize_t len;
    while ((len = recv(socket, &spec, sizeof spec, 0)) > 0) {
        int fd = len == sizeof spec ? perf_event_create(&spec) : -EINVAL;
        const struct sampler_reply reply = {.error = fd < 0 ? fd : 0, .fd_count = fd >= 0};
        message_send(socket, &reply, &fd);
    }
}

pid_t opener_start(int *socket) {
    int pair[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        close(SAMPLER_SOCKET);
        bool has_parent = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
        if (has_parent && confine())
            serve(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    if (pid < 0)
        close(pair[0]);
    *socket = pid < 0 ? -1 : pair[0];
    return pid;
}

int opener_perf_event(int socket, const struct perf_event_spec *spec) {
    struct sampler_reply reply;
    int fds[SAMPLER_MAX_FDS], error;
    if (send(socket, spec, sizeof *spec, MSG_NOSIGNAL) != sizeof *spec)
        return -EPIPE;
    do
        error = message_receive(socket, &reply, fds, 0);
    while (error == -EAGAIN);
    if (!error)
        error = reply.error;
    return error ? error : reply.fd_count == 1 ? fds[0] : -EPIPE;
}
