/* SPDX-License-Identifier: Apache-2.0
 *
 * ListTargets. The attached targets are listed at once, unless the name of a user is missing. What
 * blocks is done on a worker: to look names up, and to read /proc for processes that are not
 * attached or for advice. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/targets/target_message.h"
#include "service/rpc/targets/user_names.h"

#include <stdlib.h>

struct list {
    struct rpc_job job;
    struct engine_target *targets;
    size_t count;
    bool has_unattached, wants_advice;
    char (*advice)[PROGRAM_ADVICE]; /* by target; NULL = not asked for */
    struct user_names names;        /* a copy of the server's, which this job adds to */
};

static sonde_err fill(struct rpc_call *call, const struct engine_target *targets, size_t count,
                      const struct user_names *names, char (*advice)[PROGRAM_ADVICE],
                      Sonde__V1__ListTargetsResponse *response) {
    struct sonde_arena *arena = rpc_call_arena(call);
    response->targets = sonde_arena_alloc(arena, (count + 1) * sizeof *response->targets);
    if (!response->targets)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!rpc_call_shows(call, &targets[i]))
            continue;
        Sonde__V1__Target *target = rpc_target(arena, &targets[i]);
        if (!target)
            return SONDE_OUT_OF_MEMORY;
        target->user = (char *)rpc_text(arena, user_names_find(names, targets[i].uid));
        target->advice = (char *)rpc_text(arena, advice ? advice[i] : "");
        response->targets[response->n_targets++] = target;
    }
    return SONDE_OK;
}

static void answer(struct rpc_call *call, const struct engine_target *targets, size_t count,
                   const struct user_names *names, char (*advice)[PROGRAM_ADVICE]) {
    Sonde__V1__ListTargetsResponse response = SONDE__V1__LIST_TARGETS_RESPONSE__INIT;
    sonde_err err = fill(call, targets, count, names, advice, &response);
    if (err)
        rpc_finish(call, err, NULL);
    else
        rpc_reply(call, &response.base);
}

/* Only about processes that the caller may see. */
static void advise(struct list *list) {
    struct rpc_call *call = list->job.call;
    list->advice = calloc(list->count + 1, sizeof *list->advice);
    for (size_t i = 0; i < list->count && list->advice; i++)
        if (rpc_call_shows(call, &list->targets[i]))
            engine_name_advice(rpc_call_server(call)->engine, &list->targets[i], list->advice[i]);
}

static void collect(struct rpc_job *job) {
    struct list *list = container_of(job, struct list, job);
    if (list->has_unattached)
        list->targets = engine_processes(rpc_call_server(job->call)->engine, &list->count);
    for (size_t i = 0; i < list->count; i++)
        user_names_resolve(&list->names, list->targets[i].uid);
    if (list->wants_advice)
        advise(list);
}

static void on_collected(struct rpc_job *job) {
    struct list *list = container_of(job, struct list, job);
    struct rpc_call *call = job->call;
    *rpc_call_server(call)->user_names = list->names;
    answer(call, list->targets, list->count, &list->names, list->advice);
    free(list->targets);
    free(list->advice);
    free(list);
    rpc_call_drop(call);
}

static bool are_known(const struct user_names *names, const struct engine_target *targets,
                      size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!user_names_has(names, targets[i].uid))
            return false;
    return true;
}

/* Takes targets. */
static void start_job(struct rpc_call *call, struct engine_target *targets, size_t count,
                      const Sonde__V1__ListTargetsRequest *request) {
    struct list *list = calloc(1, sizeof *list);
    if (!list) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        free(targets);
        return;
    }
    list->job = (struct rpc_job){.call = call, .run = collect, .on_done = on_collected};
    list->targets = targets;
    list->count = count;
    list->has_unattached = request->include_unattached;
    list->wants_advice = request->include_advice;
    list->names = *rpc_call_server(call)->user_names;
    rpc_call_take(call);
    rpc_job_start(&list->job);
}

void rpc_list_targets(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsRequest *request = (const void *)message;
    struct rpc_server *server = rpc_call_server(call);
    struct engine_target *targets = NULL;
    size_t count = 0;
    user_names_expire(server->user_names);
    if (!request->include_unattached)
        targets = engine_targets(server->engine, &count);
    if (request->include_unattached || request->include_advice ||
        !are_known(server->user_names, targets, count)) {
        start_job(call, targets, count, request);
        return;
    }
    answer(call, targets, count, server->user_names, NULL);
    free(targets);
}
