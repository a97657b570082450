/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls for a user who may only see and control their own processes. One place enforces it for
 * every method: the request's selector is resolved among that user's processes, and replaced by one
 * that fits only the process found. So handlers need not know about callers. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/server_state.h"

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

/* Files are shared. So are saved captures, and the dumps of processes that have ended. */
static bool uses_what_is_shared(ProtobufCMessage *request) {
    const Sonde__V1__SymbolizeRequest *symbols = (const void *)request;
    if (request->descriptor == &sonde__v1__symbolize_request__descriptor &&
        (symbols->build_id[0] || symbols->n_mappings > 0))
        return true;
    return is_set(request, "keep") || is_set(request, "ended");
}

static sonde_err resolve(const struct rpc_caller *caller, struct engine *engine,
                         const Sonde__V1__TargetSelector *sent, struct engine_target *found,
                         struct sonde_diag *diag) {
    struct engine_selector selector = {.name = "", .uuid = "", .owner = &caller->uid};
    if (sent) {
        selector.name = sent->name;
        selector.pid = sent->pid;
        selector.uuid = sent->uuid;
    }
    return engine_find(engine, &selector, found, diag);
}

/* A pid and a uuid fit one process only: the guest chooses the uuid, the kernel the pid. */
static Sonde__V1__TargetSelector *pin(struct sonde_arena *arena,
                                      const struct engine_target *target) {
    Sonde__V1__TargetSelector *selector = sonde_arena_alloc(arena, sizeof *selector);
    char *uuid = sonde_arena_dup(arena, target->uuid, strlen(target->uuid));
    if (!selector || !uuid)
        return NULL;
    sonde__v1__target_selector__init(selector);
    selector->pid = target->pid;
    selector->uuid = uuid;
    return selector;
}

sonde_err rpc_caller_limit(const struct rpc_caller *caller, struct engine *engine,
                           const struct rpc_method *method, ProtobufCMessage *request,
                           struct sonde_arena *arena, struct sonde_diag *diag) {
    struct engine_target found;
    if (!caller->is_limited || method->reach == RPC_REACH_FILTERED)
        return SONDE_OK;
    Sonde__V1__TargetSelector **target = request ? field_of(request, "target") : NULL;
    if (method->reach != RPC_REACH_TARGET || !target || uses_what_is_shared(request))
        return refuse(diag);
    sonde_err err = resolve(caller, engine, *target, &found, diag);
    if (err)
        return err;
    *target = pin(arena, &found);
    return *target ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
