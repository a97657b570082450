/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/heap and /pprof/heap: the live heap, or with `name` one of the periodic dumps, as a
 * profile. With `base` only the difference from a dump. */
#include "gateway/families/heap_switch.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DUMP_NAME_SIZE 12 /* "000001.heap" */
#define MAX_SECONDS    3600
#define MAX_AGE_S      1e9

struct heap_params {
    char name[DUMP_NAME_SIZE]; /* a dump; "" = the live heap */
    char base[DUMP_NAME_SIZE]; /* the dump to compare with; "" = none */
    bool growth_only;
    uint64_t seconds; /* 0 = now */
    double older_than_s;
};

struct heap_reply {
    struct profile_reply profile;
    struct heap_params params;
};

/* ---- Parameters ---- */

/* Exactly six digits and ".heap". No other text is passed on as a dump's name. */
static bool is_dump_name(struct sonde_slice name) {
    size_t digits = 0;
    while (digits < name.len && name.data[digits] >= '0' && name.data[digits] <= '9')
        digits++;
    return digits == 6 && name.len == DUMP_NAME_SIZE - 1 && memcmp(name.data + 6, ".heap", 5) == 0;
}

static sonde_err read_name(const struct query *query, const char *key, char dump[DUMP_NAME_SIZE],
                           struct sonde_diag *diag) {
    struct sonde_slice name;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, key, &name) || name.len == 0)
        return SONDE_OK;
    if (!is_dump_name(name))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "heap profile name %s is invalid",
                          query_quote(name, quoted));
    memcpy(dump, name.data, name.len);
    return SONDE_OK;
}

static sonde_err read_dumps(const struct query *query, struct heap_params *params,
                            struct sonde_diag *diag) {
    sonde_err err = read_name(query, "name", params->name, diag);
    if (!err)
        err = read_name(query, "base", params->base, diag);
    if (!err && params->base[0])
        err = query_flag(query, "growth_only", &params->growth_only, diag);
    return err;
}

/* `seconds` asks a pprof of the live heap for the change during that time. It is ignored everywhere
 * else. */
static sonde_err read_times(const struct query *query, int format, struct heap_params *params,
                            struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (format == SONDE__V1__FORMAT__PPROF && !params->name[0] && !params->base[0])
        err = query_whole(query, "seconds", 1, MAX_SECONDS, &params->seconds, diag);
    return err ? err
               : query_decimal(query, "older_than", 0, MAX_AGE_S, &params->older_than_s, diag);
}

/* Exactly `jeprof=true` asks for a call graph, whatever the headers say. */
static bool wants_callgraph(const struct query *query) {
    struct sonde_slice value;
    return query_get(query, "jeprof", &value) && sonde_slice_equals(value, "true");
}

/* The path's setup, with the default format of this request. */
static struct profile_setup choose_setup(const struct request_context *context,
                                         bool is_difference) {
    struct profile_setup setup = *(const struct profile_setup *)context->route->setup;
    bool is_callgraph = wants_callgraph(&context->query);
    if (is_callgraph || is_difference)
        setup.flags &= ~(unsigned)PROFILE_NEGOTIATES;
    if (is_difference)
        setup.format = SONDE__V1__FORMAT__PPROF;
    if (is_callgraph)
        setup.format = SONDE__V1__FORMAT__SVG_CALLGRAPH;
    return setup;
}

/* ---- Errors ---- */

/* A dump that is not on the list: the base if only the base is named. */
static void refuse_dump(struct relay *relay) {
    const struct heap_params *params = &((struct heap_reply *)relay)->params;
    char text[64];
    snprintf(text, sizeof text, "heap profile %s not found",
             params->name[0] ? params->name : params->base);
    reply_status(relay_take_request(relay), relay->family, 400, "NOT_FOUND", text);
}

static void refuse(struct profile_reply *profile, sonde_err err, const struct sonde_diag *diag) {
    const struct heap_params *params = &((struct heap_reply *)profile)->params;
    struct relay *relay = &profile->relay;
    if (err == SONDE_NOT_ACTIVE)
        reply_status(relay_take_request(relay), relay->family, 500, "NOT_ACTIVE",
                     "heap profiling is not activated");
    else if (err == SONDE_NOT_FOUND && diag && strstr(diag->text, ".heap not found"))
        reply_status(relay_take_request(relay), relay->family, 400, "NOT_FOUND", diag->text);
    else if (err == SONDE_NOT_FOUND && (params->name[0] || params->base[0]))
        refuse_dump(relay);
    else
        relay_refuse(relay, err, diag);
}

/* ---- Calls ---- */

static void get_dump(struct relay *relay) {
    struct heap_reply *reply = (struct heap_reply *)relay;
    Sonde__V1__GetHeapDumpRequest request = SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.rendering = &rendering;
    request.name = reply->params.name;
    request.base_dump = reply->params.base;
    request.growth_only = reply->params.growth_only;
    profile_reply_call(&reply->profile, &client_get_heap_dump, &request.base, PROFILE_GRACE_MS);
}

static void take_snapshot(struct heap_reply *reply, const struct request_context *context) {
    const struct heap_params *params = &reply->params;
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.rendering = &rendering;
    request.require_active = true;
    request.base_dump = reply->params.base;
    request.growth_only = params->growth_only;
    request.delta_ms = (uint32_t)params->seconds * 1000;
    request.older_than_ms = (uint64_t)llround(params->older_than_s * 1000);
    profile_reply_start(&reply->profile, context, &client_heap_snapshot, &request.base,
                        request.delta_ms + PROFILE_GRACE_MS);
}

void handle_heap_profile(const struct request_context *context) {
    struct sonde_diag diag = {0};
    struct profile_format format;
    struct heap_params params = {.name = ""};
    sonde_err err = read_dumps(&context->query, &params, &diag);
    struct profile_setup setup = choose_setup(context, params.base[0] != 0);
    if (!err && !profile_format_read(context, &setup, setup.format, &format))
        return;
    if (!err)
        err = read_times(&context->query, format.id, &params, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct heap_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->profile.refuse = refuse;
    reply->params = params;
    if (!params.name[0])
        take_snapshot(reply, context);
    else if (context->head)
        profile_reply_check_target(&reply->profile);
    else
        heap_if_active(&reply->profile.relay, get_dump, refuse_dump);
}
