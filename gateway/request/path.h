/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's prefix of a path: /t/<name-or-pid>/debug/pprof/... . Tools that derive further URLs
 * from the one they were given keep a prefix, but drop a query. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REQUEST_PATH_H
#define SONDE_GATEWAY_REQUEST_PATH_H

#include "api/bytes.h"

#define PATH_MAX_NAME 200

/* A target as far as a request names it. */
struct target_choice {
    char name[PATH_MAX_NAME + 1]; /* decoded; "" = not said */
    int32_t pid;                  /* 0 = not said */
    /* Several processes: "@all" is every one, "@all:redis" those of that name, and "@all:123" the
     * process 123 and all that it starts. */
    bool all;
};

struct path_parts {
    struct sonde_slice prefix;   /* "/t/redis" as sent; may be empty */
    struct sonde_slice rest;     /* the path after the prefix; at least "/" */
    bool named;                  /* there is a prefix, which says the target */
    struct target_choice target; /* digits are a pid */
};

/* False if there is a prefix that cannot name a target: empty, too long, a pid out of range, a NUL
 * or invalid UTF-8 in the decoded name. prefix and rest are valid even then. The slices borrow from
 * path. */
bool path_split(struct sonde_slice path, struct path_parts *parts);

/* Reads a target's name. Digits are a pid only after "@all:". False if no target can have it. */
bool path_read_name(struct sonde_slice text, struct target_choice *target);
/* Whether the request names a target. */
static inline bool path_is_said(const struct target_choice *target) {
    return target->name[0] || target->pid || target->all;
}

/* Whether a target can have that name: 1 to PATH_MAX_NAME bytes of UTF-8 without NUL. */
bool path_is_name(struct sonde_slice name);
/* Reads a pid: digits only, 1 to 2^31-1. */
bool path_is_pid(struct sonde_slice text, int32_t *pid);

/* Appends the target as a segment of a path. */
void path_append_target(struct sonde_buf *out, const struct target_choice *target);
/* Appends a name, percent-encoded as one segment of a path. */
void path_append_encoded(struct sonde_buf *out, struct sonde_slice name);

#endif
