/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners: parses their addresses, binds them and accepts connections. */
#include "api/text/port.h"
#include "gateway/http/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG          1024
#define ACCEPTS_PER_WAKE 16 /* keeps a flood of new connections from starving the open ones */

static void stop_accepting(struct http_server *server) {
    server->accepting = false;
    for (size_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].sock)
            h2o_socket_read_stop(server->listeners[i].sock);
}

static bool accept_one(struct listener *listener) {
    h2o_socket_t *sock = h2o_evloop_socket_accept(listener->sock);
    if (!sock)
        return false;
    struct connection *connection = http_connection_open(listener, sock);
    if (connection) {
        listener->accept.ssl_ctx = connection->ssl;
        h2o_accept(&listener->accept, sock);
    }
    return true;
}

static void wait_for_room(struct http_server *server) {
    stop_accepting(server);
    (void)http_connection_make_room(server);
}

static void on_accept(h2o_socket_t *sock, const char *err) {
    struct listener *listener = sock->data;
    struct http_server *server = listener->server;
    if (err)
        return;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        if (server->connections >= server->options.max_connections) {
            if (i == 0) /* somebody is waiting */
                wait_for_room(server);
            return;
        }
        if (!accept_one(listener))
            return;
    }
}

void http_listen_start(struct http_server *server) {
    server->accepting = true;
    for (size_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].sock)
            h2o_socket_read_start(server->listeners[i].sock, on_accept);
}

void http_listen_close(struct http_server *server) {
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        if (!listener->sock)
            continue;
        h2o_socket_read_stop(listener->sock);
        h2o_socket_close(listener->sock);
        listener->sock = NULL;
        if (listener->unix_path)
            unlink(listener->unix_path);
    }
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

/* Splits "HOST:PORT" or "[V6]:PORT" in place. */
static bool split_address(char *text, char **host, char **port) {
    char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return false;
    *colon = 0;
    *port = colon + 1;
    *host = text;
    if (text[0] != '[')
        return true;
    if (colon[-1] != ']')
        return false;
    colon[-1] = 0;
    *host = text + 1;
    return true;
}

static int bind_tcp(const struct addrinfo *address, bool v6_only) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (v6_only && address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static void describe_tcp(struct listener *listener, int fd, bool tls) {
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    getsockname(fd, (void *)&address, &len);
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v6 = address.ss_family == AF_INET6;
    const void *bytes = is_v6 ? (const void *)&((struct sockaddr_in6 *)(void *)&address)->sin6_addr
                              : &((struct sockaddr_in *)(void *)&address)->sin_addr;
    inet_ntop(address.ss_family, bytes, host, sizeof host);
    int port = ntohs(is_v6 ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                           : ((struct sockaddr_in *)(void *)&address)->sin_port);
    snprintf(listener->address, sizeof listener->address, "http%s://%s%s%s:%d", tls ? "s" : "",
             is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
    listener->local = is_loopback((void *)&address);
}

static sonde_err listen_tcp(struct listener *listener, const char *text, int *fd,
                            struct sonde_diag *diag) {
    char copy[160], *host, *port;
    unsigned number;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy ||
        !split_address(copy, &host, &port))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"%.64s\" is neither unix:PATH nor HOST:PORT", text);
    if (!sonde_port_read(port, &number))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address \"%.64s\": " SONDE_PORT_RULE,
                          text);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    int failed = getaddrinfo(host, port, &hints, &addresses);
    if (failed)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address \"%.64s\": %s", text,
                          gai_strerror(failed));
    *fd = -1;
    for (struct addrinfo *one = addresses; one && *fd < 0; one = one->ai_next)
        *fd = bind_tcp(one, listener->server->options.v6_only);
    int reason = errno;
    freeaddrinfo(addresses);
    if (*fd < 0)
        return sonde_fail_os(diag, reason, "cannot listen on %.64s", text);
    describe_tcp(listener, *fd, listener->server->options.cert_file != NULL);
    return SONDE_OK;
}

/* A socket file that refuses connections was left by a dead server and may be replaced. */
static bool is_stale(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const void *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static sonde_err listen_unix(struct listener *listener, const char *path, int *fd,
                             struct sonde_diag *diag) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof address.sun_path)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"unix:%.64s\": the path of a unix socket has 1 to %zu bytes",
                          path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    if (is_stale(&address))
        unlink(path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || bind(*fd, (void *)&address, sizeof address) != 0 || listen(*fd, BACKLOG) != 0) {
        int reason = errno;
        if (*fd >= 0)
            close(*fd);
        return sonde_fail_os(diag, reason, "cannot listen on unix:%.64s", path);
    }
    listener->local = listener->is_unix = true;
    listener->unix_path = path;
    snprintf(listener->address, sizeof listener->address, "unix:%s", path);
    return SONDE_OK;
}

sonde_err http_listen(struct http_server *server, const char *text, struct sonde_diag *diag) {
    struct listener *listener = &server->listeners[server->listener_count];
    int fd;
    *listener = (struct listener){.server = server};
    sonde_err err = strncmp(text, "unix:", 5) == 0 ? listen_unix(listener, text + 5, &fd, diag)
                                                   : listen_tcp(listener, text, &fd, diag);
    if (err)
        return err;
    listener->sock = h2o_evloop_socket_create(server->loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    listener->sock->data = listener;
    server->listener_count++;
    return SONDE_OK;
}
