/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/caller_name.h"

#include <stdio.h>
#include <string.h>

#define MAX_NAME 64

/* Appends with ", " in between. */
__attribute__((format(printf, 2, 3))) static void add(char out[CALLER_NAME_SIZE],
                                                      const char *format, ...) {
    size_t used = strlen(out);
    va_list arguments;
    if (used)
        used += (size_t)snprintf(out + used, CALLER_NAME_SIZE - used, ", ");
    if (used >= CALLER_NAME_SIZE)
        return;
    va_start(arguments, format);
    vsnprintf(out + used, CALLER_NAME_SIZE - used, format, arguments);
    va_end(arguments);
}

void caller_name(const struct request_context *context, char out[CALLER_NAME_SIZE]) {
    char peer[MAX_NAME], certificate[MAX_NAME];
    uid_t uid;
    *out = 0;
    if (http_request_uid(context->request, &uid))
        add(out, "uid %u", uid);
    if (context->token.scopes)
        add(out, "token line %d", context->token.line);
    http_request_certificate(context->request, certificate, sizeof certificate);
    if (*certificate)
        add(out, "certificate %s", certificate);
    http_request_peer(context->request, peer, sizeof peer);
    add(out, "from %s", peer);
}
