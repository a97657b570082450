/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries the messages of `sonde mcp`: each line of stdin is a request to the gateway, each answer
 * a line of stdout, in the order in which they arrive. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_MCP_BRIDGE_H
#define SONDE_CLIENTS_CLI_MCP_BRIDGE_H

#include "clients/cli/mcp/exchange.h"
#include "clients/cli/run/helper.h"

#define BRIDGE_MAX_CALLS 64         /* that run; further lines wait */
#define BRIDGE_MAX_LINE  (1u << 20) /* longer ones are refused */

struct bridge {
    struct exchange_peer peer;
    struct helper *gateway;
    struct helper *sonded; /* NULL = one that was running */
    int signals;           /* signalfd: the bridge ends */
};

/* Runs until stdin ends and all calls have been answered, until stdout is closed, or until a
 * signal. SONDE_UNAVAILABLE if the gateway has ended. */
SONDE_MUST_USE sonde_err bridge_run(const struct bridge *bridge, struct sonde_diag *diag);

#endif
