/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's prefix of a path: /t/<name-or-pid>/debug/pprof/... . It stays in the URLs that tools
 * derive, which a query does not. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_PATH_H
#define SONDE_GATEWAY_REQUEST_PATH_H

#include "api/bytes.h"

#define PATH_MAX_NAME 200

struct path_parts {
    struct sonde_slice prefix; /* "/t/redis" as sent; empty when there is none */
    struct sonde_slice rest;   /* what the route table knows; "/" at least */
    bool named;                /* the prefix names a target: one of the next two */
    int32_t pid;               /* all digits; 0 = not */
    char name[PATH_MAX_NAME + 1];
};

/* False when there is a prefix that can name no target: empty, too long, a pid that does not fit,
 * NUL or broken UTF-8 in the decoded name. parts->rest is right even then. */
bool path_split(struct sonde_slice path, struct path_parts *parts);

/* Whether a client's bytes can be the name of a target. */
bool path_is_name(struct sonde_slice name);
/* All digits, 1..2^31-1. */
bool path_is_pid(struct sonde_slice text, int32_t *pid);

/* A name as one piece of a path. */
void path_append_encoded(struct sonde_buf *out, struct sonde_slice name);

#endif
