/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that this service makes to others: unary, one at a time, on a channel of its own. Messages
 * are bytes. The channel connects with the first call and reconnects by itself.
 *
 * Thread safety: one thread calls; rpc_outgoing_cancel from any thread. */
#ifndef SONDE_SERVICE_RPC_OUTGOING_OUTGOING_H
#define SONDE_SERVICE_RPC_OUTGOING_OUTGOING_H

#include "api/bytes.h"
#include "api/error.h"

#define RPC_OUTGOING_MAX_HEADERS 32
#define RPC_OUTGOING_MAX_ANSWER  (64u << 10) /* bytes; also of the error's details */

struct rpc_outgoing;

struct rpc_outgoing_header {
    const char *name, *value; /* the name in lower case */
};

struct rpc_outgoing_options {
    const char *address; /* HOST:PORT */
    bool is_tls;
    /* PEM; read again when they change, for the next call. Without ca_file the system's certificate
     * authorities are trusted. cert_file and key_file are the client's certificate, or both NULL.
     */
    const char *ca_file, *cert_file, *key_file;
    const struct rpc_outgoing_header *headers; /* sent with each call; copied */
    size_t header_count;
    void (*log)(const char *line); /* about files that have changed; may be NULL */
};

/* Does not connect yet. SONDE_INVALID_ARGUMENT (a file, a header, the address), SONDE_IO,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err rpc_outgoing_create(const struct rpc_outgoing_options *options,
                                             struct rpc_outgoing **outgoing,
                                             struct sonde_diag *diag);
void rpc_outgoing_destroy(struct rpc_outgoing *outgoing); /* NULL is fine */

struct rpc_outgoing_answer {
    int status;             /* gRPC's: 0 = OK */
    char message[256];      /* the status's text, as received */
    bool was_connected;     /* before the call */
    struct sonde_buf body;  /* the response, if the status is OK */
    struct sonde_buf extra; /* "grpc-status-details-bin": a google.rpc.Status */
};

/* path: "/package.Service/Method", static. Fills the zeroed answer, whose bufs the caller finishes,
 * after deadline_ms at most. */
void rpc_outgoing_call(struct rpc_outgoing *outgoing, const char *path, struct sonde_slice request,
                       uint32_t deadline_ms, struct rpc_outgoing_answer *answer);
/* Ends the running call and all later ones with status 1, CANCELLED. */
void rpc_outgoing_cancel(struct rpc_outgoing *outgoing);

#endif
