/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as the answer to a request: the call whose messages become a call tree, and what is
 * made of it when it is complete. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_FLAME_REPLY_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_FLAME_REPLY_H

#include "gateway/families/grafana/call_tree.h"
#include "gateway/families/grafana/connect.h"

#define FLAME_NODES 8192 /* unless the client says how many; Pyroscope's own default */

struct flame_reply {
    struct connect connect;
    struct call_tree tree;
    bool is_diff;
    const struct sonde_event *event; /* of the (right) selection; NULL = unknown */
    /* Takes the request and answers. Without a base leftTicks is 0 and groups have four values. */
    void (*answer)(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph);
    sonde_err err;
    struct sonde_diag diag;
};

/* base NULL: not a difference. max_nodes 0 or less: FLAME_NODES. */
void flame_reply_ask(const struct request_context *context, Sonde__V1__Selection *base,
                     Sonde__V1__Selection *selection, int64_t max_nodes,
                     void (*answer)(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph));

#endif
