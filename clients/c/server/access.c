/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/token_file.h"
#include "clients/c/server/server_state.h"

#include <string.h>

/* The scopes of the first "authorization" header. */
static unsigned find_scopes(struct token_file *tokens, const grpc_metadata_array *metadata) {
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *item = &metadata->metadata[i];
        if (grpc_slice_str_cmp(item->key, "authorization") == 0)
            return token_file_find(
                       tokens, (struct sonde_slice){(const char *)GRPC_SLICE_START_PTR(item->value),
                                                    GRPC_SLICE_LENGTH(item->value)})
                .scopes;
    }
    return 0;
}

static const char *scope_name(enum sonde_scope scope) {
    return scope == SONDE_SCOPE_READ      ? "read"
           : scope == SONDE_SCOPE_CONTROL ? "control"
                                          : "register";
}

/* Without tokens, TCP is only served to clients with a certificate, or with is_open. */
sonde_err server_access(const struct server *server, const char *peer,
                        const grpc_metadata_array *metadata, const struct server_method *method,
                        struct sonde_diag *diag) {
    if (strncmp(peer, "unix:", 5) == 0 || !server->options.tokens)
        return SONDE_OK;
    unsigned scopes = find_scopes(server->options.tokens, metadata);
    if (scopes == 0)
        return sonde_fail(diag, SONDE_UNAUTHENTICATED,
                          "this controller needs an access token that is in its --token-file");
    if (!(scopes & method->scope))
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "this access token lacks the scope %s, see --token-file",
                          scope_name(method->scope));
    return SONDE_OK;
}
