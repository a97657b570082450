/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that reads a DNS name or a URL every FETCHER_INTERVAL_S, so that a slow server delays
 * neither files nor other servers.
 *
 * Thread safety: one thread starts, takes and stops. */
#ifndef SONDE_CLIENTS_COLLECT_DISCOVERY_FETCHER_H
#define SONDE_CLIENTS_COLLECT_DISCOVERY_FETCHER_H

#include "clients/collect/discovery/source.h"

#define FETCHER_INTERVAL_S 30
#define FETCHER_RETRY_S    10 /* after a failure */
#define FETCHER_STOP_S     2

struct fetcher;

/* wake_fd: an eventfd that is written when there is a result. */
SONDE_MUST_USE sonde_err fetcher_start(const struct source_spec *spec, int wake_fd,
                                       struct fetcher **fetcher, struct sonde_diag *diag);
/* Waits until there is a result, or until the moment on CLOCK_MONOTONIC. */
void fetcher_wait(struct fetcher *fetcher, const struct timespec *until);
/* The latest result, once; false if there is none. *list is the caller's, or NULL with diag. */
bool fetcher_take(struct fetcher *fetcher, struct host_list **list, struct sonde_diag *diag);
/* Waits at most FETCHER_STOP_S: a thread that the resolver holds longer ends by itself. NULL is
 * fine. */
void fetcher_stop(struct fetcher *fetcher);

#endif
