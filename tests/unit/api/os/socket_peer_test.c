/* SPDX-License-Identifier: Apache-2.0
 *
 * Built twice: with WITHOUT_NETLINK the kernel refuses netlink sockets from the start, so that the
 * same tests read /proc/self/net/tcp, as where the module tcp_diag is missing. */
#include "api/os/socket_peer.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER 65534

static struct socket_peer_refusal refusal;

/* For this process and its children, for good. */
static bool refuse_netlink(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#ifdef WITHOUT_NETLINK
__attribute__((constructor)) static void begin(void) {
    if (!refuse_netlink())
        abort();
}
#endif

/* A listening socket on a loopback address: 127.0.0.1, ::1 or ::ffff:127.0.0.1. */
static int listen_at(const char *address, struct sockaddr_in6 *bound) {
    struct sockaddr_in6 *v6 = bound;
    struct sockaddr_in *v4 = (void *)bound;
    memset(bound, 0, sizeof *bound);
    bool is_v6 = strchr(address, ':') != NULL;
    bound->sin6_family = is_v6 ? AF_INET6 : AF_INET;
    CHECK_INT(inet_pton(bound->sin6_family, address,
                        is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr),
              ==, 1);
    socklen_t len = is_v6 ? sizeof *v6 : sizeof *v4;
    int fd = socket(bound->sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (void *)bound, len) == 0 && listen(fd, 8) == 0);
    CHECK_INT(getsockname(fd, (void *)bound, &len), ==, 0);
    return fd;
}

static int connect_to(const struct sockaddr_in6 *address) {
    int fd = socket(address->sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (const void *)address, sizeof *address) == 0);
    return fd;
}

static void check_own_uid(const char *address) {
    struct sockaddr_in6 bound;
    uid_t uid = 4711;
    int listener = listen_at(address, &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(socket_peer_uid(accepted, &uid, &refusal));
    CHECK_INT(uid, ==, geteuid());
    CHECK(socket_peer_uid(client, &uid, &refusal));
    close(client);
    close(accepted);
    close(listener);
}

TEST(the_peer_of_an_ipv4_connection_is_found) {
    check_own_uid("127.0.0.1");
    check_own_uid("127.3.2.1");
}

TEST(the_peer_of_an_ipv6_connection_is_found) {
    check_own_uid("::1");
}

TEST(the_peer_of_an_ipv4_connection_of_an_ipv6_socket_is_found) {
    check_own_uid("::ffff:127.0.0.1");
}

TEST(the_peer_of_a_unix_socket_is_found) {
    int pair[2];
    uid_t uid = 4711;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), ==, 0);
    CHECK(socket_peer_uid(pair[0], &uid, &refusal));
    CHECK_INT(uid, ==, geteuid());
    close(pair[0]);
    close(pair[1]);
}

/* Run as root, because only root can become another user. */
TEST(another_users_connection_has_that_users_uid) {
    struct sockaddr_in6 bound;
    uid_t uid = 0;
    struct timeval patience = {.tv_sec = 20}; /* where root may not become another user */
    int done[2], status;
    char byte;
    if (geteuid() != 0)
        return;
    int listener = listen_at("127.0.0.1", &bound);
    CHECK_INT(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), ==, 0);
    CHECK_INT(pipe(done), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        bool is_ready = setresuid(STRANGER, STRANGER, STRANGER) == 0 && connect_to(&bound) >= 0;
        ssize_t got = read(done[0], &byte, 1); /* keeps the socket open */
        _exit(!is_ready || got != 0);
    }
    close(done[0]);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(accepted >= 0);
    CHECK(socket_peer_uid(accepted, &uid, &refusal));
    CHECK_INT(uid, ==, STRANGER);
    close(done[1]);
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK_INT(status, ==, 0);
    close(accepted);
    close(listener);
}

TEST(a_peer_that_has_closed_is_unknown) {
    struct sockaddr_in6 bound;
    uid_t uid = 4711;
    int listener = listen_at("127.0.0.1", &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(client);
    CHECK(!socket_peer_uid(accepted, &uid, &refusal));
    CHECK_INT(uid, ==, 4711);
    close(accepted);
    close(listener);
}

TEST(a_peer_that_reset_the_connection_is_unknown) {
    struct sockaddr_in6 bound;
    const struct linger at_once = {.l_onoff = 1};
    uid_t uid;
    int listener = listen_at("127.0.0.1", &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK_INT(setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), ==, 0);
    close(client);
    CHECK(!socket_peer_uid(accepted, &uid, &refusal));
    close(accepted);
    close(listener);
}

TEST(a_peer_that_only_sends_no_more_is_found) {
    struct sockaddr_in6 bound;
    uid_t uid = 4711;
    int listener = listen_at("127.0.0.1", &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    shutdown(client, SHUT_WR);
    CHECK(socket_peer_uid(accepted, &uid, &refusal));
    CHECK_INT(uid, ==, geteuid());
    close(client);
    close(accepted);
    close(listener);
}

TEST(a_listening_socket_is_nobodys_peer) {
    struct sockaddr_in6 bound;
    struct sockaddr_in absent = {.sin_family = AF_INET, .sin_port = htons(9)};
    absent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uid_t uid;
    int listener = listen_at("127.0.0.1", &bound);
    CHECK(!socket_peer_uid(listener, &uid, &refusal));
    CHECK(!socket_peer_uid_at((void *)&absent, (void *)&bound, &uid, &refusal));
    close(listener);
}

TEST(a_file_has_no_peer) {
    uid_t uid;
    CHECK(!socket_peer_uid(STDIN_FILENO, &uid, &refusal));
    CHECK(!socket_peer_uid(-1, &uid, &refusal));
}

/* The two ends of a connection by themselves are not enough: they must be each other's. */
TEST(the_peer_of_another_connection_is_unknown) {
    struct sockaddr_in6 bound, other;
    socklen_t len = sizeof other;
    uid_t uid;
    int listener = listen_at("::1", &bound), client = connect_to(&bound);
    int elsewhere = listen_at("::1", &other), second = connect_to(&other);
    CHECK_INT(getsockname(second, (void *)&other, &len), ==, 0);
    CHECK(!socket_peer_uid_at((void *)&bound, (void *)&other, &uid, &refusal));
    close(client);
    close(second);
    close(listener);
    close(elsewhere);
}

TEST(the_kernel_that_has_answered_needs_no_explanation) {
    struct sockaddr_in6 bound;
    char text[256];
    uid_t uid;
    refusal = (struct socket_peer_refusal){0};
    int listener = listen_at("127.0.0.1", &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(client);
    CHECK(!socket_peer_uid(accepted, &uid, &refusal));
    socket_peer_explain(&refusal, text, sizeof text);
    CHECK_STR(text, "");
    close(accepted);
    close(listener);
}

/* In a child: the kernel refuses netlink, and there is no /proc. */
static int explain_silence(void) {
    struct sockaddr_in6 bound;
    char text[256];
    uid_t uid = 4711;
    int listener = listen_at("127.0.0.1", &bound), client = connect_to(&bound);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/proc", "tmpfs", 0, NULL) != 0)
        return 77;
    bool is_known = refuse_netlink() && socket_peer_uid(accepted, &uid, &refusal);
    socket_peer_explain(&refusal, text, sizeof text);
    close(client);
    return is_known || uid != 4711 ||
           strcmp(text, "the kernel does not say who is calling (sock_diag: Address family not "
                        "supported by protocol, /proc/net/tcp: No such file or directory): load "
                        "the module tcp_diag") != 0;
}

TEST(a_kernel_that_answers_neither_way_is_reported) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(explain_silence());
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK(WIFEXITED(status) &&
          (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 77 && geteuid() != 0)));
}
