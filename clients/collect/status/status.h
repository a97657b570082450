/* SPDX-License-Identifier: Apache-2.0
 *
 * The controller's status over HTTP, for people and for Prometheus:
 *
 *     GET /                  a line of sums and one for each host, those in trouble first
 *     GET /hosts[?name=N]    the hosts as JSON, each with the reason why it is not connected
 *     GET /metrics           sums in Prometheus' text format; no label names a host
 *
 * There is no access token: whoever reaches the address reads the names of the hosts. An address of
 * loopback only answers requests for loopback's names, so that no web page reads it through a name
 * of its own (DNS rebinding). The server answers on a thread of its own. */
#ifndef SONDE_CLIENTS_COLLECT_STATUS_STATUS_H
#define SONDE_CLIENTS_COLLECT_STATUS_STATUS_H

#include "api/error.h"
#include "clients/collect/controller/controller.h"

#define STATUS_CONNECTIONS 64u /* one peer may have half of them; see gateway/http */

struct status_server;

/* `address`: HOST:PORT or [IPv6]:PORT, where HOST is an IP address or localhost; port 0 is a free
 * one. Errors: SONDE_INVALID_ARGUMENT, SONDE_UNAVAILABLE (the address is taken). */
SONDE_MUST_USE sonde_err status_start(const char *address, struct controller *controller,
                                      struct status_server **server, struct sonde_diag *diag);
/* "http://127.0.0.1:9464". */
const char *status_url(const struct status_server *server);
/* Before controller_destroy. NULL is fine. */
void status_stop(struct status_server *server);

#endif
