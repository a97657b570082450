/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/certificate.h"

#include <grpc/grpc_security.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {GRPC_X509_CN_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* A name with a NUL inside equals none of the list. */
static bool is_listed(const grpc_auth_property *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == name->value_length &&
            strncasecmp(names[i], name->value, name->value_length) == 0)
            return true;
    return false;
}

bool rpc_certificate_is_listed(grpc_call *call, const char *const *names, size_t count) {
    grpc_auth_context *peer = grpc_call_auth_context(call);
    const grpc_auth_property *name;
    bool found = false;
    for (size_t i = 0; i < KINDS && !found; i++) {
        grpc_auth_property_iterator at = grpc_auth_context_find_properties_by_name(peer, kinds[i]);
        while (!found && (name = grpc_auth_property_iterator_next(&at)))
            found = is_listed(name, names, count);
    }
    grpc_auth_context_release(peer);
    return found;
}

void rpc_certificate_name(grpc_call *call, char *out, size_t size) {
    grpc_auth_context *peer = grpc_call_auth_context(call);
    *out = 0;
    for (size_t i = 0; i < KINDS && !*out; i++) {
        grpc_auth_property_iterator at = grpc_auth_context_find_properties_by_name(peer, kinds[i]);
        const grpc_auth_property *name = grpc_auth_property_iterator_next(&at);
        if (name)
            snprintf(out, size, "%.*s", (int)name->value_length, name->value);
    }
    grpc_auth_context_release(peer);
}
