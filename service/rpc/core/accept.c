/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts calls: one request is registered per method, and one for unknown paths. Without the
 * latter, a client that calls an unknown method would wait until its own deadline. A call arrives
 * without its message, which is read only after the caller was accepted. */
#include "api/base/clock.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "service/rpc/core/server_state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAR_S (7 * 86400)

#define PROFILER "/sonde.v1.Profiler/"

struct rpc_request {
    struct loop_tag tag;
    struct rpc_server *server;
    const struct rpc_method *method; /* NULL = unknown paths */
    void *registered;
    struct rpc_arrival arrival;
    gpr_timespec deadline;
    grpc_call_details details;
};

static void arm(struct rpc_request *request) {
    grpc_completion_queue *queue = loop_queue(request->server->loop);
    struct rpc_arrival *arrival = &request->arrival;
    arrival->call = NULL;
    grpc_metadata_array_init(&arrival->metadata);
    core_tag_sent(&request->tag);
    if (!request->method)
        grpc_server_request_call(request->server->core, &arrival->call, &request->details,
                                 &arrival->metadata, queue, queue, &request->tag);
    else
        grpc_server_request_registered_call(request->server->core, request->registered,
                                            &arrival->call, &request->deadline, &arrival->metadata,
                                            NULL, queue, queue, &request->tag);
}

/* 0 = none. A deadline that is very far away counts as none. */
static uint64_t monotonic_ns(gpr_timespec deadline) {
    gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    if (left.tv_sec > FAR_S)
        return 0;
    int64_t left_ns = left.tv_sec < 0 ? 0 : left.tv_sec * 1000000000ll + left.tv_nsec;
    return (uint64_t)(clock_ns(CLOCK_MONOTONIC) + left_ns);
}

static void on_arrival(struct loop_tag *tag, bool ok) {
    struct rpc_request *request = container_of(tag, struct rpc_request, tag);
    struct rpc_arrival arrival = request->arrival;
    if (!request->method) {
        grpc_call_details_destroy(&request->details);
        grpc_call_details_init(&request->details);
    }
    if (!ok) {
        grpc_metadata_array_destroy(&arrival.metadata);
        return;
    }
    arrival.deadline_ns = request->method ? monotonic_ns(request->deadline) : 0;
    arm(request);
    rpc_call_begin(request->server, request->method, &arrival);
}

/* Without an engine, Profiler's methods are unknown paths. */
static bool is_served(const struct rpc_server *server, const struct rpc_method *method) {
    return server->engine || strncmp(method->path, PROFILER, strlen(PROFILER)) != 0;
}

sonde_err rpc_accept_register(struct rpc_server *server, struct sonde_diag *diag) {
    server->request_count = server->method_count + 1;
    server->requests = calloc(server->request_count, sizeof *server->requests);
    if (!server->requests)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the method table");
    for (size_t i = 0; i < server->request_count; i++) {
        struct rpc_request *request = &server->requests[i];
        request->tag.run = on_arrival;
        request->server = server;
        request->method = i < server->method_count ? &server->methods[i] : NULL;
        grpc_call_details_init(&request->details);
        if (!request->method || !is_served(server, request->method))
            continue;
        request->registered = grpc_server_register_method(server->core, request->method->path, NULL,
                                                          GRPC_SRM_PAYLOAD_NONE, 0);
        if (!request->registered)
            return sonde_fail(diag, SONDE_INTERNAL, "the method %s stands in the table twice",
                              request->method->path);
    }
    return SONDE_OK;
}

void rpc_accept_start(struct rpc_server *server) {
    for (size_t i = 0; i < server->request_count; i++)
        if (server->requests[i].registered || !server->requests[i].method)
            arm(&server->requests[i]);
}

void rpc_accept_finish(struct rpc_server *server) {
    for (size_t i = 0; server->requests && i < server->request_count; i++)
        grpc_call_details_destroy(&server->requests[i].details);
    free(server->requests);
    server->requests = NULL;
}
