/* SPDX-License-Identifier: Apache-2.0
 *
 * What handlers ask of their call. */
#include "service/rpc/core/call_state.h"

#include "api/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t rpc_call_deadline_ns(const struct rpc_call *call) {
    return call->deadline_ns;
}

void rpc_call_stop(struct rpc_call *call) {
    if (!rpc_call_finished(call) && call->events->on_stop)
        call->events->on_stop(call);
}

struct rpc_call *rpc_call_next(struct rpc_call *call) {
    return call->next;
}

bool rpc_call_is_limited(const struct rpc_call *call) {
    return call->caller.is_limited;
}

bool rpc_call_shows(const struct rpc_call *call, const struct engine_target *target) {
    const struct rpc_caller *caller = &call->caller;
    return target->uid == caller->uid ||
           !(target->is_unattached ? caller->is_limited_outside : caller->is_limited);
}

bool rpc_call_is_own_user(const struct rpc_call *call) {
    return call->caller.is_own_user && !call->caller.is_limited_outside;
}

bool rpc_call_is_for_other(const struct rpc_call *call) {
    return call->caller.is_limited_outside;
}

const uid_t *rpc_call_owner(const struct rpc_call *call) {
    const struct rpc_caller *caller = &call->caller;
    return caller->is_limited_outside && !caller->asks_for_guest ? &caller->uid : NULL;
}

void rpc_call_set(struct rpc_call *call, const struct rpc_call_events *events, void *state) {
    call->events = events;
    call->state = state;
}

void rpc_call_on_closed(struct rpc_call *call, void (*on_closed)(struct rpc_call *call)) {
    call->on_closed = on_closed;
}

void *rpc_call_state(const struct rpc_call *call) {
    return call->state;
}

bool rpc_call_has(const struct rpc_call *call, const struct rpc_call_events *events) {
    return call->events == events;
}

struct rpc_server *rpc_call_server(const struct rpc_call *call) {
    return call->server;
}

struct sonde_arena *rpc_call_arena(struct rpc_call *call) {
    return &call->arena;
}

bool rpc_call_sending(const struct rpc_call *call) {
    return call->is_sending;
}

bool rpc_call_finished(const struct rpc_call *call) {
    return call->has_ended || call->is_ending;
}

/* Clients choose these texts: a newline in one must not start a new log line. */
void rpc_call_note(struct rpc_call *call, const char *format, ...) {
    size_t used = strlen(call->note);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call->note + used, sizeof call->note - used, format, arguments);
    va_end(arguments);
    sonde_utf8_replace(call->note + used, '?');
}

uint32_t rpc_call_siblings(const struct rpc_call *call, bool of_any_kind) {
    uint32_t count = 0;
    for (const struct rpc_call *at = call->server->calls; at; at = at->next)
        count += (of_any_kind || at->events == call->events) && !at->is_ending &&
                 at->caller.token.line == call->caller.token.line &&
                 strcmp(at->peer, call->peer) == 0 &&
                 strcmp(at->audit.claimed, call->audit.claimed) == 0;
    return count;
}
