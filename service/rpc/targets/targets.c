/* SPDX-License-Identifier: Apache-2.0
 *
 * WatchTargets.
 *
 * The queue of a slow watcher stays bounded: if a target leaves before its arrival was sent, both
 * events are removed. So the queue holds at most one arrival per attached target and one departure
 * per target that the client knows. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/targets/target_message.h"

#include <stdlib.h>
#include <string.h>

struct watch;

struct change {
    struct loop_message message; /* while it is posted to the loop */
    struct change *next;         /* while it waits to be sent */
    struct watch *watch;
    Sonde__V1__TargetEvent__Kind kind;
    struct engine_target target;
};

/* Holds one reference to its call until every event posted before engine_unwatch returned has
 * arrived. Messages arrive in order, so a last message of our own marks that point. */
struct watch {
    struct rpc_call *call;
    struct engine_watch *engine_watch;
    struct change *first, **last;
    struct loop_message farewell;
};

static void send_next(struct rpc_call *call) {
    struct watch *watch = rpc_call_state(call);
    struct change *change = watch->first;
    Sonde__V1__TargetEvent event = SONDE__V1__TARGET_EVENT__INIT;
    struct sonde_arena arena = {0};
    if (!change || rpc_call_sending(call) || rpc_call_finished(call))
        return;
    watch->first = change->next;
    if (!watch->first)
        watch->last = &watch->first;
    event.kind = change->kind;
    if (change->kind != SONDE__V1__TARGET_EVENT__KIND__SYNCED)
        event.target = rpc_target(&arena, &change->target);
    rpc_send(call, &event.base);
    sonde_arena_finish(&arena);
    free(change);
}

/* Removes the unsent arrival of a target that has left. */
static bool cancel_out(struct watch *watch, const struct change *gone) {
    for (struct change **at = &watch->first; *at; at = &(*at)->next) {
        struct change *change = *at;
        if (change->kind != SONDE__V1__TARGET_EVENT__KIND__ATTACHED ||
            strcmp(change->target.uuid, gone->target.uuid) != 0)
            continue;
        *at = change->next;
        if (watch->last == &change->next)
            watch->last = at;
        free(change);
        return true;
    }
    return false;
}

static void on_change(struct loop_message *message) {
    struct change *change = container_of(message, struct change, message);
    struct watch *watch = change->watch;
    struct rpc_call *call = watch->call;
    bool is_departure = change->kind == SONDE__V1__TARGET_EVENT__KIND__DETACHED;
    if (rpc_call_finished(call) || (is_departure && cancel_out(watch, change))) {
        free(change);
    } else {
        *watch->last = change;
        watch->last = &change->next;
        send_next(call);
    }
}

/* Runs on an engine thread. */
static void on_target(void *context, bool attached, const struct engine_target *target) {
    struct watch *watch = context;
    if (target && !rpc_call_shows(watch->call, target))
        return;
    struct change *change = calloc(1, sizeof *change);
    if (!change)
        return;
    change->watch = watch;
    change->message.run = on_change;
    change->kind = !target    ? SONDE__V1__TARGET_EVENT__KIND__SYNCED
                   : attached ? SONDE__V1__TARGET_EVENT__KIND__ATTACHED
                              : SONDE__V1__TARGET_EVENT__KIND__DETACHED;
    if (target)
        change->target = *target;
    loop_post(rpc_call_server(watch->call)->loop, &change->message);
}

static void on_farewell(struct loop_message *message) {
    rpc_call_drop(container_of(message, struct watch, farewell)->call);
}

static void end_watch(struct rpc_call *call) {
    struct watch *watch = rpc_call_state(call);
    if (!watch->engine_watch)
        return;
    engine_unwatch(rpc_call_server(call)->engine, watch->engine_watch);
    watch->engine_watch = NULL;
    loop_post(rpc_call_server(call)->loop, &watch->farewell);
}

static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    end_watch(call);
    rpc_finish(call, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
}

static void release(struct rpc_call *call) {
    struct watch *watch = rpc_call_state(call);
    for (struct change *next; watch->first; watch->first = next) {
        next = watch->first->next;
        free(watch->first);
    }
    free(watch);
}

void rpc_watch_targets(struct rpc_call *call, const ProtobufCMessage *request) {
    static const struct rpc_call_events events = {send_next, end_watch, on_stop, release};
    struct watch *watch = calloc(1, sizeof *watch);
    (void)request;
    if (!watch) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    watch->call = call;
    watch->last = &watch->first;
    watch->farewell.run = on_farewell;
    rpc_call_set(call, &events, watch);
    sonde_err err =
        engine_watch(rpc_call_server(call)->engine, on_target, watch, &watch->engine_watch);
    if (err)
        rpc_finish(call, err, NULL);
    else
        rpc_call_take(call);
}
