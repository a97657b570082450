/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the server's files share. */
#ifndef SONDE_CLIENTS_C_SERVER_SERVER_STATE_H
#define SONDE_CLIENTS_C_SERVER_SERVER_STATE_H

#include "clients/c/server/server.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>

/* A call has one tag for each batch that can be under way. */
enum tag_kind { TAG_ARRIVAL, TAG_BEGIN, TAG_CLOSE, TAG_READ, TAG_SENT, TAG_STATUS, TAG_KINDS };

struct tag {
    struct server_call *call;
    enum tag_kind kind;
};

/* Which version of the TLS files a listener uses. */
struct tls_user {
    struct tls_files *files;
    atomic_uint_fast64_t version;
};

struct server {
    struct server_options options; /* methods, tokens and context */
    char addresses[SERVER_MAX_ADDRESSES][160];
    struct tls_user tls[SERVER_MAX_ADDRESSES];
    bool owns_socket[SERVER_MAX_ADDRESSES]; /* unix: removed at the end */
    size_t address_count;
    grpc_completion_queue *queue;
    grpc_server *core;
    bool has_started;
    pthread_mutex_t lock; /* guards the state of the calls */
    size_t call_count;
};

/* listen.c */
SONDE_MUST_USE sonde_err server_listen(struct server *server, const struct server_options *options,
                                       struct sonde_diag *diag);
void server_remove_sockets(struct server *server);

/* access.c: whether the caller may use the method. */
SONDE_MUST_USE sonde_err server_access(const struct server *server, const char *peer,
                                       const grpc_metadata_array *metadata,
                                       const struct server_method *method, struct sonde_diag *diag);

/* call.c */
void server_accept(struct server *server);
void server_run_tag(struct server *server, struct tag *tag, bool ok);

#endif
