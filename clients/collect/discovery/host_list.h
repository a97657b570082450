/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of one source, checked: addresses, names, labels, and their bounds. Lists come from
 * files and servers that somebody else writes.
 *
 * Thread safety: one thread at a time per list. */
#ifndef SONDE_CLIENTS_COLLECT_DISCOVERY_HOST_LIST_H
#define SONDE_CLIENTS_COLLECT_DISCOVERY_HOST_LIST_H

#include "api/bytes.h"
#include "api/hash_index.h"
#include "clients/collect/discovery/discovery.h"

#define HOST_LIST_MAX_NAME        255
#define HOST_LIST_MAX_LABELS      64          /* of a host, as of a stored window */
#define HOST_LIST_MAX_LABEL       1024        /* bytes of a name or value, as in the store */
#define HOST_LIST_MAX_LABEL_BYTES (64u << 20) /* of all hosts; a label of n hosts counts n times */

struct host_list {
    struct sonde_arena arena;
    struct discovered_host *hosts;
    size_t count, capacity, label_bytes;
    const char *origin;
    struct hash_index by_address, by_name;
};

/* origin is copied. NULL when out of memory. */
struct host_list *host_list_create(const char *origin);
void host_list_destroy(struct host_list *list); /* NULL is fine */

/* Checks, copies and sorts labels that several hosts share. SONDE_INVALID_ARGUMENT: the text of
 * diag begins with what is wrong, for the caller to put the place before it. */
SONDE_MUST_USE sonde_err host_list_labels(struct host_list *list,
                                          const struct discovered_label *labels, size_t count,
                                          const struct discovered_label **copy,
                                          struct sonde_diag *diag);
/* Copies the host, except for its labels, which are of host_list_labels. name NULL = the address.
 * An address that is in the list already is skipped. Errors as above, also SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err host_list_add(struct host_list *list, const struct discovered_host *host,
                                       struct sonde_diag *diag);

/* The text form; changes `text`, which has a zero byte at [len]. place: what error texts begin
 * with, as in "hosts.txt:3: ..." and "hosts.json: byte 17: ...". */
SONDE_MUST_USE sonde_err host_list_read_text(struct host_list *list, const char *place, char *text,
                                             size_t len, struct sonde_diag *diag);
/* Prometheus' [{"targets": ["HOST:PORT", ...], "labels": {"KEY": "VALUE", ...}}, ...]. Labels whose
 * names begin with __ are left out, except two. __sonde_name is the name of the group's only
 * target, __sonde_tls_name the TLS name of its targets. */
SONDE_MUST_USE sonde_err host_list_read_json(struct host_list *list, const char *place,
                                             const char *text, size_t len, struct sonde_diag *diag);
/* Whether a file's contents are JSON: they begin with { or with an array of something else than an
 * IPv6 address. */
bool host_list_is_json(const char *text, size_t len);

#endif
