/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/mcp/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define END_OF_HEADERS "\r\n\r\n"
#define LENGTH         "\r\ncontent-length:"
/* The gateway cancels a call only within its session. This one has no other clients. */
#define SESSION "stdio"

static void put_request(struct exchange *exchange, const struct exchange_peer *peer,
                        struct sonde_slice body) {
    sonde_buf_printf(&exchange->out,
                     "POST /mcp HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                     "accept: application/json, text/event-stream\r\n"
                     "mcp-session-id: " SESSION "\r\ncontent-length: %zu\r\n",
                     body.len);
    if (peer->token)
        sonde_buf_printf(&exchange->out, "authorization: Bearer %s\r\n", peer->token);
    sonde_buf_puts(&exchange->out, "\r\n");
    sonde_buf_append(&exchange->out, body.data, body.len);
}

sonde_err exchange_start(struct exchange *exchange, const struct exchange_peer *peer,
                         struct sonde_slice body, struct sonde_diag *diag) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(peer->socket);
    *exchange = (struct exchange){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                  .in.limit = EXCHANGE_MAX_ANSWER};
    if (exchange->fd < 0)
        return sonde_fail_os(diag, errno, "cannot create a socket");
    if (len < sizeof address.sun_path)
        memcpy(address.sun_path, peer->socket, len);
    if (connect(exchange->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        exchange_finish(exchange);
        return sonde_fail(diag, SONDE_UNAVAILABLE, "cannot reach the gateway of this command");
    }
    fcntl(exchange->fd, F_SETFL, O_NONBLOCK);
    put_request(exchange, peer, body);
    return exchange->out.failed ? sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory") : SONDE_OK;
}

short exchange_waits_for(const struct exchange *exchange) {
    return exchange->sent < exchange->out.len ? POLLOUT : POLLIN;
}

static bool may_come_later(ssize_t result) {
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

static sonde_err broke_off(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_PROTOCOL, "the answer of the gateway broke off");
}

/* The client gets the body if it is JSON. An answer with the status 202 has none. */
static sonde_err read_answer(const struct exchange *exchange, struct sonde_slice *body,
                             struct sonde_diag *diag) {
    const char *text = exchange->in.data;
    const char *end = text ? strstr(text, END_OF_HEADERS) : NULL;
    const char *length = end ? strcasestr(text, LENGTH) : NULL;
    *body = (struct sonde_slice){"", 0};
    if (!end || exchange->in.failed)
        return broke_off(diag);
    end += strlen(END_OF_HEADERS);
    size_t len = exchange->in.len - (size_t)(end - text);
    if (length && length < end && strtoull(length + strlen(LENGTH), NULL, 10) != len)
        return broke_off(diag);
    if (len && *end == '{')
        *body = (struct sonde_slice){end, len};
    return SONDE_OK;
}

sonde_err exchange_step(struct exchange *exchange, bool *is_complete, struct sonde_slice *body,
                        struct sonde_diag *diag) {
    char bytes[16384];
    ssize_t result;
    *is_complete = false;
    if (exchange->sent < exchange->out.len) {
        result = send(exchange->fd, exchange->out.data + exchange->sent,
                      exchange->out.len - exchange->sent, MSG_NOSIGNAL);
        exchange->sent += result > 0 ? (size_t)result : 0;
        return result > 0 || may_come_later(result) ? SONDE_OK : broke_off(diag);
    }
    result = recv(exchange->fd, bytes, sizeof bytes, 0);
    if (result > 0)
        sonde_buf_append(&exchange->in, bytes, (size_t)result);
    if (result > 0 || may_come_later(result))
        return SONDE_OK;
    *is_complete = true;
    return result < 0 ? broke_off(diag) : read_answer(exchange, body, diag);
}

void exchange_finish(struct exchange *exchange) {
    if (exchange->fd >= 0)
        close(exchange->fd);
    sonde_buf_finish(&exchange->out);
    sonde_buf_finish(&exchange->in);
    *exchange = (struct exchange){.fd = -1};
}
