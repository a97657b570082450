/* SPDX-License-Identifier: Apache-2.0
 *
 * Access control of a call. Without a token sonded's own user and root are allowed: over unix
 * sockets, which only they can open, and over loopback, where the kernel knows who is at the other
 * end. Client certificates have been verified before a call exists; their names are checked first
 * of all, except over unix sockets, which have no TLS. A server without a token file ignores
 * tokens, because a gateway in front of it may have a token file of its own.
 *
 * A gateway makes calls for other users and says so in metadata ("sonde-caller-uid"). That only
 * takes rights away, so whoever is allowed to call may send it. A sonded that serves the guests of
 * one user shows them to whom the gateway admits, but samples only the caller's own processes from
 * outside. */
#include "service/rpc/base/certificate.h"
#include "service/rpc/core/peer.h"
#include "service/rpc/core/server_state.h"

#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_UID_DIGITS 10

_Static_assert((int)RPC_SCOPE_READ == SONDE_SCOPE_READ &&
                   (int)RPC_SCOPE_CONTROL == SONDE_SCOPE_CONTROL,
               "a token's scopes are a method's");

static bool is_own_user(const struct rpc_server *server, grpc_call *call,
                        struct socket_peer_refusal *refusal) {
    char *peer = grpc_call_get_peer(call);
    uid_t uid;
    bool is_own =
        strncmp(peer, "unix:", 5) == 0 ||
        (rpc_peer_uid(peer, &server->listeners, &uid, refusal) && (uid == 0 || uid == geteuid()));
    gpr_free(peer);
    return is_own;
}

struct sonde_slice rpc_metadata_find(const grpc_metadata_array *metadata, const char *key) {
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *sent = &metadata->metadata[i];
        if (grpc_slice_str_cmp(sent->key, key) == 0)
            return (struct sonde_slice){(const char *)GRPC_SLICE_START_PTR(sent->value),
                                        GRPC_SLICE_LENGTH(sent->value)};
    }
    return (struct sonde_slice){NULL, 0};
}

/* A text that is not a number means a user who has no processes. */
static void read_caller(const grpc_metadata_array *metadata, struct rpc_caller *caller) {
    struct sonde_slice sent = rpc_metadata_find(metadata, "sonde-caller-uid");
    char digits[MAX_UID_DIGITS + 1] = "";
    *caller = (struct rpc_caller){.is_limited_outside = sent.data != NULL, .uid = (uid_t)-1};
    if (!sent.data || sent.len == 0 || sent.len > MAX_UID_DIGITS)
        return;
    memcpy(digits, sent.data, sent.len);
    unsigned long uid = strtoul(digits, NULL, 10);
    if (strspn(digits, "0123456789") == sent.len && uid <= UINT32_MAX)
        caller->uid = (uid_t)uid;
}

static sonde_err check_token(const struct rpc_caller *caller, const struct rpc_method *method,
                             struct sonde_diag *diag) {
    if (caller->token.scopes == 0)
        return sonde_fail(diag, SONDE_UNAUTHENTICATED,
                          "the token is wrong: send \"authorization: Bearer TOKEN\"");
    if (!(caller->token.scopes & method->scope))
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "the token does not allow this: it needs the scope %s",
                          method->scope == RPC_SCOPE_CONTROL ? "control" : "read");
    return SONDE_OK;
}

static sonde_err refuse_stranger(const struct rpc_server *server,
                                 const struct socket_peer_refusal *refusal,
                                 struct sonde_diag *diag) {
    char silence[256];
    socket_peer_explain(refusal, silence, sizeof silence);
    if (silence[0])
        return sonde_fail(diag, SONDE_UNAUTHENTICATED, "%s, or send a token%s", silence,
                          server->tokens ? "" : " (which this service accepts with --token-file)");
    return sonde_fail(diag, SONDE_UNAUTHENTICATED,
                      server->tokens
                          ? "a token is needed: send \"authorization: Bearer TOKEN\""
                          : "this sonded serves its own user and root: for others start it with "
                            "--token-file, and send \"authorization: Bearer TOKEN\"");
}

sonde_err rpc_access_certificate(const struct rpc_server *server, grpc_call *call,
                                 struct sonde_diag *diag) {
    if (server->client_name_count == 0)
        return SONDE_OK;
    char *peer = grpc_call_get_peer(call);
    bool is_good = strncmp(peer, "unix:", 5) == 0 ||
                   rpc_certificate_is_listed(call, server->client_names, server->client_name_count);
    gpr_free(peer);
    return is_good ? SONDE_OK
                   : sonde_fail(diag, SONDE_PERMISSION_DENIED,
                                "this service does not accept the name of the client certificate: "
                                "list it with --tls-client-name");
}

sonde_err rpc_access(const struct rpc_server *server, grpc_call *call,
                     const grpc_metadata_array *metadata, const struct rpc_method *method,
                     struct rpc_caller *caller, struct sonde_diag *diag) {
    struct sonde_slice authorization = rpc_metadata_find(metadata, "authorization");
    struct socket_peer_refusal refusal = {0};
    read_caller(metadata, caller);
    caller->is_limited = caller->is_limited_outside && server->separates_users;
    if (method->scope == RPC_SCOPE_NONE || server->is_open)
        return SONDE_OK;
    caller->has_token = authorization.data && server->tokens;
    if (caller->has_token)
        caller->token = token_file_find(server->tokens, authorization);
    if (caller->has_token)
        return check_token(caller, method, diag);
    caller->is_own_user =
        !(server->token_everywhere && server->tokens) && is_own_user(server, call, &refusal);
    return caller->is_own_user ? SONDE_OK : refuse_stranger(server, &refusal, diag);
}
