/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections: who is at the other end, and how many there may be.
 *
 * Nobody can lock others out by opening connections. One peer may have half of them: one local
 * user, or one address. At that limit or at the server's, the connection that has been idle the
 * longest is closed to make room: the peer's own in the first case. A connection is idle while none
 * of its requests is running, also before its first request has arrived. */
#include "gateway/http/http_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define BODIES_BYTES (512u << 20) /* for all connections: with over 128, each gets less */

/* h2o buffers a whole body. It reads the limit when the request's headers are complete. */
static void count_connections(struct http_server *server, int change) {
    server->connections += (uint32_t)change;
    uint32_t share = BODIES_BYTES / (server->connections ? server->connections : 1);
    server->config.max_request_entity_size = share < HTTP_MAX_BODY ? share : HTTP_MAX_BODY;
}

static void note_peer(struct connection *connection, h2o_socket_t *sock) {
    struct sockaddr_storage address = {0};
    const void *host = NULL;
    if (h2o_socket_getpeername(sock, (void *)&address) == 0)
        address.ss_family = AF_UNSPEC;
    if (address.ss_family == AF_INET)
        host = &((struct sockaddr_in *)(void *)&address)->sin_addr;
    else if (address.ss_family == AF_INET6)
        host = &((struct sockaddr_in6 *)(void *)&address)->sin6_addr;
    if (!host || !inet_ntop(address.ss_family, host, connection->peer, sizeof connection->peer))
        snprintf(connection->peer, sizeof connection->peer, "%s",
                 connection->listener->is_unix ? "unix" : "unknown");
    if (connection->listener->local)
        connection->has_uid =
            socket_peer_uid(h2o_socket_get_fd(sock), &connection->uid, &connection->refusal);
}

static bool is_same_peer(const struct connection *a, const struct connection *b) {
    if (a->has_uid || b->has_uid)
        return a->has_uid == b->has_uid && a->uid == b->uid;
    return strcmp(a->peer, b->peer) == 0;
}

/* Shuts down the connection that has been idle the longest: of `peer`, or of all if it is NULL.
 * Returns whether there is one. h2o notices in its next run. */
static bool close_idle(struct http_server *server, const struct connection *peer) {
    struct connection *longest = NULL;
    for (struct connection *one = server->open; one; one = one->next)
        if (one->requests == 0 && !one->is_closing && one != peer &&
            (!peer || is_same_peer(one, peer)) &&
            (!longest || one->idle_since < longest->idle_since))
            longest = one;
    if (!longest)
        return false;
    longest->is_closing = true;
    shutdown(h2o_socket_get_fd(longest->sock), SHUT_RDWR);
    return true;
}

bool http_connection_make_room(struct http_server *server) {
    return close_idle(server, NULL);
}

static uint32_t count_of_peer(const struct connection *peer) {
    uint32_t count = 0;
    for (const struct connection *one = peer->server->open; one; one = one->next)
        count += !one->is_closing && is_same_peer(one, peer);
    return count;
}

static bool is_too_many(const struct connection *connection) {
    uint32_t limit = connection->server->options.max_connections;
    return count_of_peer(connection) > (limit + 1) / 2;
}

static void on_close(void *data) {
    struct connection *connection = data;
    struct http_server *server = connection->server;
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    SSL_CTX_free(connection->ssl);
    free(connection);
    count_connections(server, -1);
    if (!server->accepting)
        http_listen_start(server);
}

static void enlist(struct connection *connection) {
    struct http_server *server = connection->server;
    connection->next = server->open;
    connection->link = &server->open;
    if (connection->next)
        connection->next->link = &connection->next;
    server->open = connection;
    count_connections(server, 1);
}

/* Takes the socket: stores the connection in it, or closes it. */
struct connection *http_connection_open(struct listener *listener, h2o_socket_t *sock) {
    struct connection *connection = calloc(1, sizeof *connection);
    int on = 1;
    if (!connection) {
        h2o_socket_close(sock);
        return NULL;
    }
    *connection = (struct connection){
        .server = listener->server,
        .listener = listener,
        .sock = sock,
        .trust = listener->is_unix ? HTTP_UNIX
                 : listener->local ? HTTP_LOCAL
                                   : HTTP_STRANGER,
        .idle_since = h2o_now(listener->server->loop),
    };
    note_peer(connection, sock);
    sock->on_close.cb = on_close;
    sock->on_close.data = connection;
    enlist(connection);
    if (is_too_many(connection) && !close_idle(connection->server, connection)) {
        h2o_socket_close(sock);
        return NULL;
    }
    connection->ssl = listener->is_unix ? NULL : http_tls_take(listener->server);
    if (!listener->is_unix)
        setsockopt(h2o_socket_get_fd(sock), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return connection;
}

void http_connection_request_began(struct connection *connection) {
    if (connection)
        connection->requests++;
}

/* While others wait to be accepted, an idle connection is closed at once. */
void http_connection_request_ended(struct connection *connection) {
    if (!connection || --connection->requests > 0)
        return;
    struct http_server *server = connection->server;
    connection->idle_since = h2o_now(server->loop);
    if (!server->accepting && server->connections >= server->options.max_connections)
        (void)http_connection_make_room(server);
}
