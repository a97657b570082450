/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls for a user who may only see and control their own processes. One place enforces it for
 * every method: the request's selector is resolved among that user's processes, and replaced by one
 * that fits only the process found. So handlers need not know about callers. Only a selector of
 * several processes stays: most handlers refuse it, and the others pass rpc_call_owner on. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/server_state.h"

#include <stdlib.h>
#include <string.h>

static sonde_err refuse(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "all users share this: ask as root or as sonded's user, or send a token");
}

/* Points to a field of the request; NULL if it has none of that name. */
static void *field_of(ProtobufCMessage *request, const char *name) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
    return field ? (char *)request + field->offset : NULL;
}

static bool is_set(ProtobufCMessage *request, const char *name) {
    const protobuf_c_boolean *flag = field_of(request, name);
    return flag && *flag;
}

/* Symbolize of files, and the dumps of processes that have ended. */
static bool uses_no_process(ProtobufCMessage *request) {
    const Sonde__V1__SymbolizeRequest *symbols = (const void *)request;
    if (request->descriptor == &sonde__v1__symbolize_request__descriptor)
        return symbols->build_id[0] || symbols->n_mappings > 0;
    return is_set(request, "ended");
}

/* These, and saved captures. */
static bool uses_what_is_shared(ProtobufCMessage *request) {
    return uses_no_process(request) || is_set(request, "keep");
}

/* Whether the call samples from outside, whatever its `source`. */
static bool is_from_outside(const ProtobufCMessage *request) {
    return request->descriptor == &sonde__v1__check_unwind_request__descriptor;
}

static struct engine_selector selector_of(const Sonde__V1__TargetSelector *sent) {
    if (!sent)
        return (struct engine_selector){.name = "", .uuid = ""};
    return (struct engine_selector){.name = sent->name, .pid = sent->pid, .uuid = sent->uuid};
}

static bool fits(const struct engine_target *target, const struct engine_selector *selector) {
    return !target->is_unattached && (!*selector->name || !strcmp(target->name, selector->name)) &&
           (!selector->pid || target->pid == selector->pid) &&
           (!*selector->uuid || !strcmp(target->uuid, selector->uuid));
}

/* The number of guests that the selector fits, at most 2; *found is the first. */
static unsigned find_guest(struct engine *engine, const struct engine_selector *selector,
                           struct engine_target *found) {
    size_t count;
    unsigned matches = 0;
    struct engine_target *targets = engine_targets(engine, &count);
    for (size_t i = 0; i < count && matches < 2; i++) {
        if (!fits(&targets[i], selector))
            continue;
        if (matches++ == 0)
            *found = targets[i];
    }
    free(targets);
    return matches;
}

/* A pid and a uuid fit one process only: the guest chooses the uuid, the kernel the pid. */
static sonde_err pin(struct sonde_arena *arena, const struct engine_target *target,
                     Sonde__V1__TargetSelector **pinned) {
    Sonde__V1__TargetSelector *selector = sonde_arena_alloc(arena, sizeof *selector);
    char *uuid = sonde_arena_dup(arena, target->uuid, strlen(target->uuid));
    if (!selector || !uuid)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__target_selector__init(selector);
    selector->pid = target->pid;
    selector->uuid = uuid;
    *pinned = selector;
    return SONDE_OK;
}

static sonde_err limit_to_own(const struct rpc_caller *caller, struct engine *engine,
                              struct sonde_arena *arena, Sonde__V1__TargetSelector **target,
                              struct sonde_diag *diag) {
    struct engine_target found;
    struct engine_selector selector = selector_of(*target);
    selector.owner = &caller->uid;
    sonde_err err = engine_find(engine, &selector, &found, diag);
    return err ? err : pin(arena, &found, target);
}

/* Guests of every user, from inside; other processes as limit_to_own. Of several guests the engine
 * lists those that fit. */
static sonde_err limit_outside(struct rpc_caller *caller, struct engine *engine,
                               struct sonde_arena *arena, ProtobufCMessage *request,
                               Sonde__V1__TargetSelector **target, struct sonde_diag *diag) {
    struct engine_target found;
    struct engine_selector selector = selector_of(*target);
    Sonde__V1__Source *source = field_of(request, "source");
    bool is_empty = !*selector.name && !selector.pid && !*selector.uuid;
    unsigned guests = find_guest(engine, &selector, &found);
    if (guests == 0 && !is_empty)
        return limit_to_own(caller, engine, arena, target, diag);
    if (guests == 1 && found.uid == caller->uid)
        return pin(arena, &found, target);
    if (source && *source == SONDE__V1__SOURCE__HOST)
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "only your own processes can be sampled from outside: ask as root or as "
                          "sonded's user, or send a token");
    if (source)
        *source = SONDE__V1__SOURCE__GUEST;
    caller->asks_for_guest = true;
    return guests == 1 ? pin(arena, &found, target) : SONDE_OK;
}

sonde_err rpc_caller_limit(struct rpc_caller *caller, struct engine *engine,
                           const struct rpc_method *method, ProtobufCMessage *request,
                           struct sonde_arena *arena, struct sonde_diag *diag) {
    if (!caller->is_limited_outside || method->reach == RPC_REACH_FILTERED)
        return SONDE_OK;
    if (method->reach == RPC_REACH_SAVED)
        return refuse(diag);
    if (method->reach == RPC_REACH_SHARED)
        return caller->is_limited || !request ? refuse(diag) : SONDE_OK;
    Sonde__V1__TargetSelector **target = request ? field_of(request, "target") : NULL;
    if (!target || (caller->is_limited && uses_what_is_shared(request)))
        return refuse(diag);
    if (uses_no_process(request) || (*target && (*target)->all))
        return SONDE_OK;
    if (caller->is_limited || is_from_outside(request))
        return limit_to_own(caller, engine, arena, target, diag);
    return limit_outside(caller, engine, arena, request, target, diag);
}
