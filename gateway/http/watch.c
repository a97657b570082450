/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks every request twice a second for clients that h2o does not notice.
 *
 * Gone: h2o stops reading from an HTTP/1 connection once a request is complete, so it would notice
 * a closed connection only at the next write. poll with POLLRDHUP shows that the peer has closed,
 * also behind pipelined bytes.
 *
 * Stalled: h2o waits forever for a client that does not read. While a send is in flight the number
 * of acknowledged bytes must grow; after a minute without growth the connection is shut down.
 *
 * Wasteful: an HTTP/2 client can reset requests as fast as it sends them without exceeding any
 * limit on streams (the rapid reset attack of 2023), and each has started an RPC by then. A
 * connection has a budget of resets. Past it, new requests are refused and the connection is shut
 * down. */
#include "gateway/http/http_server.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define STALL_MS      60000
#define WASTE_BURST   100
#define WASTE_PER_S   10
#define MS_PER_WASTED (1000 / WASTE_PER_S)

static int socket_of(const struct http_request *request) {
    h2o_socket_t *sock = request->req->conn->callbacks->get_socket(request->req->conn);
    return sock ? h2o_socket_get_fd(sock) : -1;
}

static bool peer_has_closed(int fd) {
    struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
    return poll(&peer, 1, 0) == 1 && (peer.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* A number that changes whenever the peer receives something. */
static uint64_t taken_by(int fd) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    int queued = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && len >= sizeof info)
        return info.tcpi_bytes_acked;
    return ioctl(fd, SIOCOUTQ, &queued) == 0 ? (uint64_t)queued : 0;
}

static bool is_stalled(struct http_request *request, int fd) {
    uint64_t now = h2o_now(request->server->loop);
    bool is_sending = request->in_flight || request->state == REQUEST_ANSWERED;
    uint64_t taken = is_sending ? taken_by(fd) : 0;
    if (!is_sending || !request->moved_at || taken != request->taken) {
        request->taken = taken;
        request->moved_at = is_sending ? now : 0;
    }
    return request->moved_at && now - request->moved_at >= STALL_MS;
}

static void on_watch(h2o_timeout_entry_t *entry) {
    struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, watch, entry);
    int fd = socket_of(request);
    h2o_timeout_link(request->server->loop, &request->server->watch, entry);
    if (is_stalled(request, fd))
        shutdown(fd, SHUT_RDWR); /* h2o notices in its next run */
    else if (request->req->version < 0x200 && request->state != REQUEST_ANSWERED &&
             !request->in_flight && peer_has_closed(fd))
        http_request_abandon(request, 499);
}

void http_watch_start(struct http_request *request) {
    request->watch.cb = on_watch;
    h2o_timeout_link(request->server->loop, &request->server->watch, &request->watch);
}

/* The budget is a time: each reset moves it forward, and it may be at most WASTE_BURST resets ahead
 * of now. */
bool http_watch_is_wasteful(const struct connection *connection) {
    uint64_t now = h2o_now(connection->server->loop);
    return connection->wasted_until > now + WASTE_BURST * MS_PER_WASTED;
}

void http_watch_wasted(struct http_request *request) {
    struct connection *connection = http_connection_of(request->req);
    if (!connection)
        return;
    uint64_t now = h2o_now(request->server->loop);
    if (connection->wasted_until < now)
        connection->wasted_until = now;
    connection->wasted_until += MS_PER_WASTED;
    if (http_watch_is_wasteful(connection))
        shutdown(socket_of(request), SHUT_RDWR);
}
