/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's prefix of a path: /t/<name-or-pid>/debug/pprof/... . Tools that derive further URLs
 * from the one they were given keep a prefix, but drop a query. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_PATH_H
#define SONDE_GATEWAY_REQUEST_PATH_H

#include "api/bytes.h"

#define PATH_MAX_NAME 200

struct path_parts {
    struct sonde_slice prefix;    /* "/t/redis" as sent; may be empty */
    struct sonde_slice rest;      /* the path after the prefix; at least "/" */
    bool named;                   /* there is a prefix: pid or name is set */
    int32_t pid;                  /* of a prefix of digits; 0 = it is a name */
    char name[PATH_MAX_NAME + 1]; /* decoded */
};

/* False if there is a prefix that cannot name a target: empty, too long, a pid out of range, a NUL
 * or invalid UTF-8 in the decoded name. prefix and rest are valid even then. The slices borrow from
 * path. */
bool path_split(struct sonde_slice path, struct path_parts *parts);

/* Whether a target can have that name: 1 to PATH_MAX_NAME bytes of UTF-8 without NUL. */
bool path_is_name(struct sonde_slice name);
/* Reads a pid: digits only, 1 to 2^31-1. */
bool path_is_pid(struct sonde_slice text, int32_t *pid);

/* Appends a name, percent-encoded as one segment of a path. */
void path_append_encoded(struct sonde_buf *out, struct sonde_slice name);

#endif
