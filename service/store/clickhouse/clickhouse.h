/* SPDX-License-Identifier: Apache-2.0
 *
 * History on ClickHouse, for fleets: one server, or a cluster with shards and replicas.
 *
 * url_list is http[s]://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?SETTINGS][,URL...]. The port is
 * 8123 (https: 8443) and the database "default" unless the URL says so. Database and settings are
 * read from the first URL:
 *
 *     cluster=NAME            the list has one URL for each replica, in any order; each server's
 *                             macros {shard} and {replica} tell which one it is
 *     max_execution_time=S    of a query; default 100
 *     max_memory_usage=BYTES  of a query on one server; default 4 GiB
 *     insert_quorum=N         replicas that have a window before it is acknowledged; default 1
 *
 * Windows are acknowledged when the server has written them to its file system. A window is written
 * once even if an insert's outcome is unknown: the store asks which windows exist before it repeats
 * an insert. The same source must not be written by two processes at the same time. Needs
 * ClickHouse 18.16 or later. Retention drops whole days (UTC). */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_CLICKHOUSE_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_CLICKHOUSE_H

#include "service/store/store.h"

/* Creates the tables that are missing. SONDE_INVALID_ARGUMENT: the list or a setting is malformed,
 * or the cluster's macros are missing; SONDE_PERMISSION_DENIED; SONDE_UNAVAILABLE: no server
 * answers, or no replica of some shard. Messages never have passwords. limits may be NULL. */
SONDE_MUST_USE sonde_err clickhouse_open(const char *url_list, const struct store_limits *limits,
                                         struct store **store, struct sonde_diag *diag);

#endif
