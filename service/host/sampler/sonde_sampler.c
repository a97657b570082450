/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-sampler: holds the capabilities for sonded, which starts it with a socket as descriptor 3.
 *
 *     sonded ── requests ──▶ worker (forked for the first request, and again if one dies)
 *                              ▲ waits for its end    └──▶ opener, if perf is refused
 *     sonded ◀── "it died" ── keeper
 *
 * The keeper reads nothing, so nothing kills it; because sonded has given up the capabilities, it
 * could not start the program with them a second time. The worker answers one request at a time. An
 * operation that hangs (a file of a hostile FUSE file system) ends the worker.
 *
 * If the kernel refuses a perf event to the worker, the worker ends with its request unread, and
 * the keeper starts another one with an opener (opener.h) beside it. The keeper alone has
 * CAP_SYS_ADMIN meanwhile, permitted but not in effect, for the opener that it may have to fork:
 * the setting that makes the kernel refuse can change at any time. */
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/message.h"
#include "service/host/sampler/opener.h"
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

enum end { END_OF_SONDED = 0, NEEDS_OPENER, OPENER_ENDED };

static bool may_have_opener; /* set by the keeper, before it forks */
static bool has_lost_opener; /* in the worker */

/* --- the worker ------------------------------------------------------------------------------- */

static void confine(void) {
    struct sonde_diag diag = {0};
    /* Without what is spare for an opener. */
    if (!capabilities_use_only(capabilities_permitted() & capabilities_of_sampler()))
        _exit(END_OF_SONDED);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* also where there is no seccomp */
    sonde_err err = confine_process(CONFINE_SAMPLER, &diag);
    if (err)
        fprintf(stderr, "sonde-sampler: running unconfined: %s\n", sonde_diag_text(&diag, err));
}

/* Opens an event of which the kernel has refused the worker's own try with `error`. */
static int open_refused(const struct sampler_request *request, int opener, int error,
                        int fds[SAMPLER_MAX_FDS], uint32_t *fd_count) {
    int fd = opener_perf_event(opener, &request->event);
    has_lost_opener = fd == -EPIPE;
    if (fd < 0) /* ENODEV, for example: this CPU has gone */
        return has_lost_opener ? error : fd;
    fds[0] = fd;
    *fd_count = 1;
    return 0;
}

/* The request stays in the socket until it is done: the next worker finds it there if this one ends
 * for an opener. */
static struct sampler_reply handle(int opener, int fds[SAMPLER_MAX_FDS]) {
    struct sampler_request request;
    uint64_t spare = may_have_opener ? capabilities_of_opener() : 0;
    struct sampler_reply answer = {.capabilities = capabilities_held() | spare, .error = -EINVAL};
    if (recv(SAMPLER_SOCKET, &request, sizeof request, MSG_PEEK) != sizeof request)
        return answer;
    answer.sequence = request.sequence;
    answer.error = sampler_work(&request, fds, &answer.fd_count);
    bool is_refused = request.kind == SAMPLER_EVENT && request.version == SAMPLER_VERSION &&
                      (answer.error == -EACCES || answer.error == -EPERM);
    if (is_refused && opener >= 0)
        answer.error = open_refused(&request, opener, answer.error, fds, &answer.fd_count);
    else if (is_refused && may_have_opener)
        _exit(NEEDS_OPENER);
    return answer;
}

static int serve(pid_t keeper, int opener) {
    char byte;
    int fds[SAMPLER_MAX_FDS];
    signal(SIGALRM, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper)
        return END_OF_SONDED;
    confine();
    for (;;) {
        ssize_t len = recv(SAMPLER_SOCKET, &byte, sizeof byte, MSG_PEEK);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return END_OF_SONDED;
        alarm(SAMPLER_WORKER_S);
        struct sampler_reply answer = handle(opener, fds);
        alarm(0);
        (void)recv(SAMPLER_SOCKET, &byte, sizeof byte, 0);
        message_send(SAMPLER_SOCKET, &answer, fds);
        if (has_lost_opener)
            return OPENER_ENDED;
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

/* Reports the end of a worker, and discards the request that it has left behind: it would end the
 * next one, too. */
static void report_death(void) {
    struct sampler_request lost;
    const struct sampler_reply answer = {.error = -EPIPE};
    (void)recv(SAMPLER_SOCKET, &lost, sizeof lost, MSG_DONTWAIT);
    message_send(SAMPLER_SOCKET, &answer, NULL);
}

static int wait_for(pid_t pid) {
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* Runs a worker, with an opener beside it if one is needed, until it ends. Returns its status; -1:
 * no process can be made. */
static int run_worker(bool needs_opener) {
    pid_t self = getpid();
    int socket = -1;
    pid_t opener = needs_opener ? opener_start(&socket) : 0;
    pid_t worker = opener < 0 ? -1 : fork();
    if (worker == 0)
        _exit(serve(self, socket));
    if (socket >= 0)
        close(socket);
    int status = wait_for(worker);
    (void)wait_for(opener);
    return worker < 0 ? -1 : status;
}

static int keep(void) {
    bool needs_opener = false;
    may_have_opener = opener_is_possible();
    while (wait_for_request()) {
        int status = run_worker(needs_opener);
        if (status == -1)
            return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == END_OF_SONDED)
            return 0;
        needs_opener |= WIFEXITED(status) && WEXITSTATUS(status) == NEEDS_OPENER;
        if (!WIFEXITED(status))
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
    return capabilities_keep_spare(capabilities_of_sampler(), capabilities_of_opener())
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
