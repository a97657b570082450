/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is in the group, as far as one member knows. Whoever is in an answer is a member at once; who
 * is missing in all answers for a whole lease has left. So an answer of a History that has just
 * started, or whose store was away, makes nobody leave. Thread safety: one thread at a time. */
#ifndef SONDE_CLIENTS_COLLECT_GROUP_MEMBERS_H
#define SONDE_CLIENTS_COLLECT_GROUP_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERS_MAX      64
#define MEMBERS_MAX_NAME 64

struct members {
    struct member {
        char name[MEMBERS_MAX_NAME + 1];
        int64_t missing_ms; /* since when, on the monotonic clock; 0 = it was in the last answer */
    } items[MEMBERS_MAX];
    size_t count; /* sorted by name */
};

/* own: always a member. Returns whether the group has changed. Names that are too long, or too
 * many, are left out. */
bool members_update(struct members *members, const char *own, const char *const *names,
                    size_t count, int64_t now_ms, int64_t lease_ms);

#endif
