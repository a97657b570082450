/* SPDX-License-Identifier: Apache-2.0
 *
 * GetCode: everything runs on a worker, because files are read and a process disassembles. That can
 * take a minute, and there are two workers, so only one call runs at a time. */
#include "service/rpc/annotate/code_message.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"

#include <stdlib.h>

#define MAX_WAIT_MS 2000u /* of a worker */

struct code_work {
    struct rpc_job job;
    struct code_work *next;
    const char *build_id; /* the message's, which the call keeps */
    struct annotate_request request;
    grpc_slice packed;
    sonde_err err;
    struct sonde_diag diag;
};

static sonde_err pack(const struct annotate_answer *answer, grpc_slice *packed) {
    struct sonde_arena arena = {0};
    Sonde__V1__Code message;
    sonde_err err = code_message_from(answer, &arena, &message);
    if (!err)
        *packed = rpc_pack(&message.base);
    sonde_arena_finish(&arena);
    return err;
}

static void run(struct rpc_job *job) {
    struct code_work *work = container_of(job, struct code_work, job);
    struct annotate_answer answer = {0};
    work->err = engine_annotate(rpc_call_server(job->call)->engine, work->build_id, &work->request,
                                &answer, &work->diag);
    if (!work->err)
        work->err = pack(&answer, &work->packed);
    annotate_finish(&answer);
}

static void finish_first(struct rpc_server *server) {
    struct code_work *first = server->code;
    struct rpc_call *call = first->job.call;
    server->code = first->next;
    free(first);
    rpc_call_drop(call);
}

/* Calls may have ended while they waited. */
static void start_first(struct rpc_server *server) {
    while (server->code && rpc_call_finished(server->code->job.call))
        finish_first(server);
    if (server->code)
        rpc_job_start(&server->code->job);
}

static void enqueue(struct rpc_server *server, struct code_work *work) {
    struct code_work **end = &server->code;
    while (*end)
        end = &(*end)->next;
    *end = work;
    if (server->code == work)
        rpc_job_start(&work->job);
}

static void on_done(struct rpc_job *job) {
    struct code_work *work = container_of(job, struct code_work, job);
    struct rpc_call *call = job->call;
    struct rpc_server *server = rpc_call_server(call);
    rpc_call_set(call, &rpc_no_events, NULL);
    if (work->err)
        rpc_finish(call, work->err, &work->diag);
    else
        rpc_reply_slice(call, work->packed);
    finish_first(server);
    start_first(server);
}

void rpc_get_code(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetCodeRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct code_work *work = calloc(1, sizeof *work);
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (work)
        err = code_request_from(request, rpc_call_arena(call), &work->request, &diag);
    if (!err && !request->build_id[0])
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "build_id is missing: whose code is it?");
    if (err) {
        free(work);
        rpc_finish(call, err, &diag);
        return;
    }
    if (work->request.wait_ms > MAX_WAIT_MS)
        work->request.wait_ms = MAX_WAIT_MS;
    work->build_id = request->build_id;
    work->job = (struct rpc_job){.call = call, .run = run, .on_done = on_done};
    rpc_call_note(call, " build_id=%.64s", request->build_id);
    rpc_call_take(call);
    enqueue(rpc_call_server(call), work);
}
