/* SPDX-License-Identifier: Apache-2.0
 *
 * Which member of a group has a host: the one with the largest hash of (member, host). Every member
 * computes the same, whatever the order of the list. A member that leaves only gives up its own
 * hosts, and one that joins takes an equal part of each other's. Thread safety: any thread. */
#ifndef SONDE_CLIENTS_COLLECT_GROUP_RENDEZVOUS_H
#define SONDE_CLIENTS_COLLECT_GROUP_RENDEZVOUS_H

#include <stddef.h>

/* An index; 0 if there are no members. */
size_t rendezvous_choose(const char *const *members, size_t count, const char *host);

#endif
