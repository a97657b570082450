/* SPDX-License-Identifier: Apache-2.0
 *
 * Access control of a call: local callers are allowed, others need a token. Client certificates
 * have been checked before a call exists. A server without a token file ignores tokens, because a
 * gateway in front of it may have a token file of its own. */
#include "service/rpc/core/server_state.h"

#include <grpc/support/alloc.h>
#include <string.h>

_Static_assert((int)RPC_SCOPE_READ == SONDE_SCOPE_READ &&
                   (int)RPC_SCOPE_CONTROL == SONDE_SCOPE_CONTROL,
               "a token's scopes are a method's");

static bool is_local(grpc_call *call) {
    static const char *const prefixes[] = {"unix:", "ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D"};
    char *peer = grpc_call_get_peer(call);
    bool local = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        local = local || strncmp(peer, prefixes[i], strlen(prefixes[i])) == 0;
    gpr_free(peer);
    return local;
}

struct sonde_slice rpc_authorization(const grpc_metadata_array *metadata) {
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *sent = &metadata->metadata[i];
        if (grpc_slice_str_cmp(sent->key, "authorization") == 0)
            return (struct sonde_slice){(const char *)GRPC_SLICE_START_PTR(sent->value),
                                        GRPC_SLICE_LENGTH(sent->value)};
    }
    return (struct sonde_slice){NULL, 0};
}

static sonde_err check_token(const struct rpc_server *server, struct sonde_slice sent,
                             const struct rpc_method *method, struct sonde_diag *diag) {
    unsigned scopes = sonde_tokens_scopes(server->tokens, sent);
    if (scopes == 0)
        return sonde_fail(diag, SONDE_UNAUTHENTICATED,
                          "the token is wrong: send \"authorization: Bearer TOKEN\"");
    if (!(scopes & method->scope))
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "the token does not allow this: it needs the scope %s",
                          method->scope == RPC_SCOPE_CONTROL ? "control" : "read");
    return SONDE_OK;
}

sonde_err rpc_access(const struct rpc_server *server, grpc_call *call,
                     struct sonde_slice authorization, const struct rpc_method *method,
                     struct sonde_diag *diag) {
    if (method->scope == RPC_SCOPE_NONE)
        return SONDE_OK;
    if (authorization.data && server->tokens)
        return check_token(server, authorization, method, diag);
    if (!server->tokens || (!server->token_everywhere && is_local(call)))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_UNAUTHENTICATED,
                      "a token is needed: send \"authorization: Bearer TOKEN\"");
}
