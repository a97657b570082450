/* SPDX-License-Identifier: Apache-2.0
 *
 * What is sent with each call: the token, and on whose behalf it is made. */
#include "clients/c/client_state.h"

#include "api/os/secrets/token_file.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOKEN 512
#define MAX_NAME  160

static size_t add(grpc_metadata *metadata, const char *key, const char *value) {
    metadata->key = grpc_slice_from_static_string(key);
    metadata->value = grpc_slice_from_copied_string(value);
    return 1;
}

static size_t add_token(const char *token, grpc_metadata *metadata) {
    char value[MAX_TOKEN];
    if (!*token)
        return 0;
    snprintf(value, sizeof value, "Bearer %s", token);
    size_t count = add(metadata, "authorization", value);
    explicit_bzero(value, sizeof value);
    return count;
}

/* The token of the caller, otherwise the client's. */
static size_t add_authorization(struct client *client, const char *token, grpc_metadata *metadata) {
    char first[MAX_TOKEN] = "";
    if (!token && client->token_file)
        token_file_first(client->token_file, first, sizeof first);
    if (!token)
        token = client->token_file ? first : client->token ? client->token : "";
    size_t count = add_token(token, metadata);
    explicit_bzero(first, sizeof first);
    return count;
}

/* gRPC refuses metadata with other bytes than printable ASCII. */
static size_t add_name(const char *name, grpc_metadata *metadata) {
    char value[MAX_NAME + 1];
    snprintf(value, sizeof value, "%s", name);
    for (char *at = value; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return add(metadata, "sonde-caller", value);
}

size_t client_metadata(struct client *client, const struct client_caller *caller,
                       grpc_metadata metadata[CLIENT_MAX_METADATA]) {
    char uid[16];
    size_t count = add_authorization(client, caller->token, metadata);
    if (caller->is_limited) {
        snprintf(uid, sizeof uid, "%u", caller->uid);
        count += add(&metadata[count], "sonde-caller-uid", uid);
    }
    if (caller->name)
        count += add_name(caller->name, &metadata[count]);
    return count;
}
