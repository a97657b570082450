/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-sampler: holds the capabilities for sonded, which starts it with a socket as descriptor 3.
 *
 *     sonded ── requests ──▶ worker (forked for the first request, and again if one dies)
 *                              ▲ waits for its end
 *     sonded ◀── "it died" ── keeper
 *
 * The keeper reads nothing, so nothing kills it; because sonded has given up the capabilities, it
 * could not start the program with them a second time. The worker answers one request at a time.
 * An operation that hangs (a file of a hostile FUSE file system) ends the worker. */
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/protocol.h"

#include "api/os/confine.h"
#include "api/version.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define END_OF_SONDED 0

/* Descriptors are this process's own copies, closed after they were passed. */
static void reply(const struct sampler_reply *answer, const int *fds) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * SAMPLER_MAX_FDS)];
        struct cmsghdr align;
    } control = {0};
    struct iovec body = {.iov_base = (void *)answer, .iov_len = sizeof *answer};
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    size_t bytes = sizeof(int) * answer->fd_count;
    if (answer->fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds, bytes);
    }
    (void)sendmsg(SAMPLER_SOCKET, &message, MSG_NOSIGNAL);
    for (uint32_t i = 0; i < answer->fd_count; i++)
        close(fds[i]);
}

/* --- the worker ------------------------------------------------------------------------------- */

static void confine(void) {
    struct sonde_diag diag = {0};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* also where there is no seccomp */
    sonde_err err = confine_process(CONFINE_SAMPLER, &diag);
    if (err)
        fprintf(stderr, "sonde-sampler: running unconfined: %s\n", sonde_diag_text(&diag, err));
}

static int serve(pid_t keeper) {
    struct sampler_request request;
    int fds[SAMPLER_MAX_FDS];
    signal(SIGALRM, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper)
        return END_OF_SONDED;
    confine();
    for (;;) {
        ssize_t len = recv(SAMPLER_SOCKET, &request, sizeof request, 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return END_OF_SONDED;
        struct sampler_reply answer = {.capabilities = capabilities_held(), .error = -EINVAL};
        if (len == sizeof request) {
            answer.sequence = request.sequence;
            alarm(SAMPLER_WORKER_S);
            answer.error = sampler_work(&request, fds, &answer.fd_count);
            alarm(0);
        }
        reply(&answer, fds);
    }
}

/* --- the keeper ------------------------------------------------------------------------------- */

static bool wait_for_request(void) {
    struct pollfd socket = {.fd = SAMPLER_SOCKET, .events = POLLIN};
    int ready;
    do
        ready = poll(&socket, 1, -1);
    while (ready < 0 && errno == EINTR);
    return ready > 0 && (socket.revents & POLLIN) && !(socket.revents & POLLHUP);
}

/* Reports the end of a worker, and discards the request that it may have left behind: it would end
 * the next one, too. */
static void report_death(void) {
    struct sampler_request lost;
    const struct sampler_reply answer = {.error = -EPIPE};
    (void)recv(SAMPLER_SOCKET, &lost, sizeof lost, MSG_DONTWAIT);
    reply(&answer, NULL);
}

static int keep(void) {
    pid_t self = getpid();
    while (wait_for_request()) {
        int status = 0;
        pid_t worker = fork();
        if (worker == 0)
            _exit(serve(self));
        if (worker < 0)
            return 1;
        while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        report_death();
    }
    return 0;
}

/* --- who may start it ------------------------------------------------------------------------- */

/* A user who may run a program with file capabilities can use them. So the file's mode must say who
 * that is, and the socket must be that of the program's own parent. */
static const char *objection(void) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    int type = 0;
    if (getsockopt(SAMPLER_SOCKET, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        getsockopt(SAMPLER_SOCKET, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof type}) != 0 ||
        type != SOCK_SEQPACKET)
        return "sonded starts this program; it is not for the command line";
    if (peer.pid != getppid() || peer.uid != getuid())
        return "the socket does not belong to the process that started this one";
    return NULL;
}

static const char *limit_capabilities(void) {
    struct stat program;
    bool has_own = getxattr("/proc/self/exe", "security.capability", NULL, 0) > 0;
    if (has_own && (stat("/proc/self/exe", &program) != 0 || (program.st_mode & S_IXOTH)))
        return "every user may run this program, so it does not use its capabilities; "
               "run chgrp to the group of sonded, chmod 0750 and setcap again";
    return capabilities_keep(capabilities_of_sampler())
               ? NULL
               : "the kernel does not let it give up capabilities";
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts(SONDE_VERSION) < 0;
    const char *refusal = objection();
    if (!refusal && (capabilities_held() & capabilities_of_sampler()) == 0)
        return 0; /* no more rights than sonded */
    if (!refusal)
        refusal = limit_capabilities();
    if (refusal) {
        fprintf(stderr, "sonde-sampler: %s\n", refusal);
        return 1;
    }
    /* It ends with sonded, which may still need it after a Ctrl-C or a SIGTERM to all. */
    for (const int *at = (const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, 0}; *at; at++)
        signal(*at, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0);
    return keep();
}
