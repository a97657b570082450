/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and what each allows. Comparing takes the same time whatever was sent.
 * Thread safety: any thread once read. */
#ifndef SONDE_SERVICE_RPC_TOKENS_H
#define SONDE_SERVICE_RPC_TOKENS_H

#include "api/bytes.h"
#include "api/error.h"

struct rpc_tokens;

/* A file as rpc_server_options says. SONDE_INVALID_ARGUMENT names the line. */
SONDE_MUST_USE sonde_err rpc_tokens_read(const char *path, struct rpc_tokens **tokens,
                                         struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_tokens_parse(struct sonde_slice text, struct rpc_tokens **tokens,
                                          struct sonde_diag *diag);
void rpc_tokens_destroy(struct rpc_tokens *tokens);

/* The scopes (enum rpc_scope) of the value of an "authorization" header: "Bearer TOKEN". 0 = no
 * such token. */
unsigned rpc_tokens_scopes(const struct rpc_tokens *tokens, struct sonde_slice authorization);

#endif
