/* SPDX-License-Identifier: Apache-2.0
 *
 * Controllers that share the hosts of a fleet: each has a lease in the store (History.RenewLease),
 * which it renews all the time, and learns who else has one.
 *
 * While History is away, everything stays as it was: each controller keeps its hosts. A controller
 * that starts then calls nobody at first, and everybody after three leases. If two believe to have
 * the same host, the later call ends the earlier (Profiler.Collect), and no window counts twice.
 *
 * A thread of its own. */
#ifndef SONDE_CLIENTS_COLLECT_GROUP_GROUP_H
#define SONDE_CLIENTS_COLLECT_GROUP_GROUP_H

#include "api/error.h"

#include <stddef.h>
#include <stdint.h>

#define GROUP_LEASE_S 20

struct group;
struct tls_files;
struct token_file;

struct group_options {
    const char *name, *own;       /* the group's, and this controller's */
    uint32_t lease_s;             /* 5 to 300 */
    const char *const *addresses; /* of History */
    size_t address_count;
    const char *server_name;       /* as in client.h */
    struct token_file *token_file; /* NULL = none; it must outlive this */
    struct tls_files *tls;         /* the same */
    /* Who is in the group now, sorted; on the group's thread. Not called before it is known. */
    void (*on_change)(void *context, const char *const *members, size_t count);
    void *context;
    void (*log)(const char *line);
};

/* SONDE_INVALID_ARGUMENT (a name), SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err group_start(const struct group_options *options, struct group **group,
                                     struct sonde_diag *diag);
/* Why the lease is not renewed; "" = it is. Any thread. */
void group_trouble(struct group *group, char *text, size_t size);
/* Gives up the lease. NULL is fine. */
void group_stop(struct group *group);

#endif
