/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/grafana/flame_reply.h"

#include "api/profile/event.h"
#include "gateway/families/history/history_query.h"

static void on_tree(struct relay *relay, const ProtobufCMessage *message) {
    struct flame_reply *reply = (struct flame_reply *)relay;
    if (!reply->err)
        reply->err = call_tree_add(&reply->tree, (const void *)message, &reply->diag);
    if (reply->err)
        client_call_cancel(relay->call);
    relay_pull(relay);
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct flame_reply *reply = (struct flame_reply *)relay;
    struct sonde_arena arena = {0};
    Querier__V1__FlameGraphDiff graph;
    if (reply->err) {
        err = reply->err;
        diag = &reply->diag;
    }
    if (!err) {
        err = call_tree_flamegraph(&reply->tree, reply->is_diff, &arena, &graph, &reply->diag);
        diag = &reply->diag;
    }
    if (err)
        history_on_end(relay, err, diag);
    else
        reply->answer(reply, &graph);
    sonde_arena_finish(&arena);
}

static void finish(struct relay *relay) {
    call_tree_finish(&((struct flame_reply *)relay)->tree);
}

static uint32_t to_nodes(int64_t wanted) {
    return wanted <= 0                    ? FLAME_NODES
           : wanted > CALL_TREE_MAX_NODES ? CALL_TREE_MAX_NODES
                                          : (uint32_t)wanted;
}

void flame_reply_ask(const struct request_context *context, Sonde__V1__Selection *base,
                     Sonde__V1__Selection *selection, int64_t max_nodes,
                     void (*answer)(struct flame_reply *reply,
                                    Querier__V1__FlameGraphDiff *graph)) {
    static const struct relay_events events = {on_tree, on_end, finish};
    Sonde__V1__QueryTreeRequest wanted = SONDE__V1__QUERY_TREE_REQUEST__INIT;
    struct flame_reply *reply = connect_create(context, sizeof *reply, &events);
    reply->is_diff = base != NULL;
    reply->event = sonde_event_find(selection->event);
    reply->answer = answer;
    wanted.selection = selection;
    wanted.base_selection = base;
    wanted.merge_threads = true;
    wanted.max_nodes = to_nodes(max_nodes);
    relay_call(&reply->connect.relay, &client_query_tree, &wanted.base, HISTORY_DEADLINE_MS);
}
