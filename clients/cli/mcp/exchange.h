/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request to the gateway of `sonde mcp`, over a connection of its own to its unix socket.
 * HTTP/1.0, whose answer ends with the connection and is never in chunks. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_MCP_EXCHANGE_H
#define SONDE_CLIENTS_CLI_MCP_EXCHANGE_H

#include "api/bytes.h"
#include "api/error.h"

#define EXCHANGE_MAX_ANSWER (256u << 10)

struct exchange {
    int fd; /* -1 = not in use */
    struct sonde_buf out, in;
    size_t sent;
};

/* The gateway, and what all requests to it have in common. */
struct exchange_peer {
    const char *socket;
    const char *token; /* NULL = none */
};

/* Connects. SONDE_UNAVAILABLE if the gateway does not accept it. */
SONDE_MUST_USE sonde_err exchange_start(struct exchange *exchange, const struct exchange_peer *peer,
                                        struct sonde_slice body, struct sonde_diag *diag);
/* The events of poll that it waits for. */
short exchange_waits_for(const struct exchange *exchange);
/* Sends or receives what it can without blocking, and sets *is_complete once the answer is
 * complete. Then *body borrows from the exchange; it is empty if the client gets no answer.
 * SONDE_PROTOCOL: the answer broke off. */
SONDE_MUST_USE sonde_err exchange_step(struct exchange *exchange, bool *is_complete,
                                       struct sonde_slice *body, struct sonde_diag *diag);
void exchange_finish(struct exchange *exchange);

#endif
