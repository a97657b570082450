/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the machine's users. Looking one up may take seconds where a directory server is asked,
 * so it is done on a worker, and the names are used again for a minute. Thread safety: one thread
 * at a time. */
#ifndef SONDE_SERVICE_RPC_TARGETS_USER_NAMES_H
#define SONDE_SERVICE_RPC_TARGETS_USER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define USER_NAMES     256 /* further users have no name */
#define USER_NAME_SIZE 64  /* longer names are left out */

struct user_names {
    struct {
        uid_t uid;
        char name[USER_NAME_SIZE];
    } items[USER_NAMES];
    size_t count;
    uint64_t since_ns; /* of the oldest name, on the monotonic clock */
};

/* Forgets names that are older than a minute. */
void user_names_expire(struct user_names *names);
/* Whether user_names_resolve has nothing to do. */
bool user_names_has(const struct user_names *names, uid_t uid);
/* Asks the system, unless the name is known. Blocks: on a worker. */
void user_names_resolve(struct user_names *names, uid_t uid);
/* "" = unknown. */
const char *user_names_find(const struct user_names *names, uid_t uid);

#endif
