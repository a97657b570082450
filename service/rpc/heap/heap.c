/* SPDX-License-Identifier: Apache-2.0
 *
 * The unary heap methods. Each sends a request to the engine; the engine's event is posted to the
 * loop, which builds the answer. */
#include "service/engine/heap/heap.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/heap/ended_dumps.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OWNER 64

struct answer {
    struct loop_message message;
    struct rpc_call *call;
    void (*reply)(struct answer *answer);
    sonde_err err;
    struct sonde_diag diag;
    struct engine_heap_state state;
    struct engine_heap_dump *dumps;
    size_t dump_count;
};

/* ---- Replies ---- */

static void fill_state(struct rpc_call *call, const struct engine_heap_state *from,
                       Sonde__V1__HeapState *state) {
    struct sonde_arena *arena = rpc_call_arena(call);
    sonde__v1__heap_state__init(state);
    state->backend = (Sonde__V1__HeapState__Backend)from->backend;
    state->available = from->available;
    state->active = from->active;
    state->note = (char *)rpc_text(arena, from->note);
    state->owner = (char *)rpc_text(arena, from->owner);
    state->active_since_unix_ns = from->active_since_unix_ns;
    state->interval_s = from->interval_s;
    state->sample_bytes = from->sample_bytes;
    state->epoch = from->epoch;
    state->dumps = from->dumps;
    state->dump_bytes = from->dump_bytes;
    state->dump_failures = from->dump_failures;
    state->last_failure = (char *)rpc_text(arena, from->last_failure);
    state->gdump = from->gdump;
    state->accumulates = from->accumulates;
    state->lease_until_unix_ns = from->lease_until_unix_ns;
    state->gdump_skipped = from->gdump_skipped;
    state->dropped = from->dropped;
    state->keep_dumps = from->keep_dumps;
}

static void reply_state(struct answer *answer) {
    Sonde__V1__HeapState state;
    fill_state(answer->call, &answer->state, &state);
    rpc_reply(answer->call, &state.base);
}

static void reply_deactivated(struct answer *answer) {
    Sonde__V1__HeapDeactivated deactivated = SONDE__V1__HEAP_DEACTIVATED__INIT;
    Sonde__V1__HeapState state;
    fill_state(answer->call, &answer->state, &state);
    deactivated.was_active = answer->state.was_active;
    deactivated.state = &state;
    rpc_reply(answer->call, &deactivated.base);
}

static void reply_dumps(struct answer *answer) {
    Sonde__V1__ListHeapDumpsResponse response = SONDE__V1__LIST_HEAP_DUMPS_RESPONSE__INIT;
    struct sonde_arena *arena = rpc_call_arena(answer->call);
    Sonde__V1__HeapDump *dumps = sonde_arena_alloc(arena, (answer->dump_count + 1) * sizeof *dumps);
    response.dumps = sonde_arena_alloc(arena, (answer->dump_count + 1) * sizeof *response.dumps);
    if (!dumps || !response.dumps) {
        rpc_finish(answer->call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    for (size_t i = 0; i < answer->dump_count; i++) {
        rpc_heap_fill_dump(&answer->dumps[i], &dumps[i]);
        response.dumps[i] = &dumps[i];
    }
    response.n_dumps = answer->dump_count;
    rpc_reply(answer->call, &response.base);
}

static void reply_gdump(struct answer *answer) {
    Sonde__V1__HeapGdump gdump = SONDE__V1__HEAP_GDUMP__INIT;
    gdump.active = answer->state.gdump;
    gdump.keep_dumps = answer->state.keep_dumps;
    rpc_reply(answer->call, &gdump.base);
}

/* ---- From the engine to the loop ---- */

static void answer_free(struct answer *answer) {
    if (!answer)
        return;
    free(answer->dumps);
    free(answer);
}

static void has_answer(struct loop_message *message) {
    struct answer *answer = container_of(message, struct answer, message);
    if (answer->err)
        rpc_finish(answer->call, answer->err, &answer->diag);
    else
        answer->reply(answer);
    rpc_call_drop(answer->call);
    answer_free(answer);
}

static void on_heap(void *context, sonde_err err, const struct sonde_diag *diag,
                    const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                    size_t dump_count) {
    struct answer *answer = context;
    answer->err = err;
    if (diag)
        answer->diag = *diag;
    if (state)
        answer->state = *state;
    if (dump_count > 0)
        answer->dumps = calloc(dump_count, sizeof *answer->dumps);
    if (dump_count > 0 && !answer->dumps)
        answer->err = SONDE_OUT_OF_MEMORY;
    if (answer->dumps) {
        memcpy(answer->dumps, dumps, dump_count * sizeof *dumps);
        answer->dump_count = dump_count;
    }
    loop_post(rpc_call_server(answer->call)->loop, &answer->message);
}

/* Fills the request's selector from the target. */
static void ask(struct rpc_call *call, const Sonde__V1__TargetSelector *target,
                struct engine_heap_request *request, void (*reply)(struct answer *)) {
    struct sonde_diag diag = {0};
    struct answer *answer = NULL;
    sonde_err err = rpc_selector(target, &request->target, &diag);
    if (!err && !(answer = calloc(1, sizeof *answer)))
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        answer->call = call;
        answer->reply = reply;
        answer->message.run = has_answer;
        rpc_call_note(call, " target=%s pid=%d",
                      rpc_text(rpc_call_arena(call), request->target.name),
                      (int)request->target.pid);
        rpc_call_take(call);
        err = engine_heap(rpc_call_server(call)->engine, request, on_heap, answer, &diag);
        if (err)
            rpc_call_drop(call);
    }
    if (!err)
        return;
    answer_free(answer);
    rpc_finish(call, err, &diag);
}

static void ask_verb(struct rpc_call *call, const Sonde__V1__TargetSelector *target,
                     enum engine_heap_verb verb, void (*reply)(struct answer *)) {
    struct engine_heap_request request = {.verb = verb};
    ask(call, target, &request, reply);
}

/* ---- Methods ---- */

void rpc_heap_status(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapStatusRequest *request = (const void *)message;
    ask_verb(call, request->target, ENGINE_HEAP_STATUS, reply_state);
}

void rpc_heap_activate(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapActivateRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct engine_heap_request wanted = {.verb = ENGINE_HEAP_ACTIVATE,
                                         .sample_bytes = request->sample_bytes,
                                         .interval_s = request->interval_s,
                                         .keep_dumps = request->keep_dumps,
                                         .keep_bytes = request->keep_bytes,
                                         .lease_ms = request->lease_ms,
                                         .owner = request->owner,
                                         .backend = (enum engine_heap_backend)request->backend};
    if (request->backend > SONDE__V1__HEAP_STATE__BACKEND__INTERPOSED)
        rpc_finish(call,
                   sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "backend: %d is not a known value",
                              (int)request->backend),
                   &diag);
    else if (strlen(request->owner) > MAX_OWNER)
        rpc_finish(call,
                   sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                              "owner: %zu bytes are too long; at most %d", strlen(request->owner),
                              MAX_OWNER),
                   &diag);
    else
        ask(call, request->target, &wanted, reply_state);
}

void rpc_heap_deactivate(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivateRequest *request = (const void *)message;
    struct engine_heap_request wanted = {.verb = ENGINE_HEAP_DEACTIVATE,
                                         .delete_dumps = request->delete_dumps};
    ask(call, request->target, &wanted, reply_deactivated);
}

void rpc_heap_reset(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapResetRequest *request = (const void *)message;
    struct engine_heap_request wanted = {.verb = ENGINE_HEAP_RESET,
                                         .sample_bytes = request->sample_bytes};
    ask(call, request->target, &wanted, reply_state);
}

void rpc_list_heap_dumps(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListHeapDumpsRequest *request = (const void *)message;
    if (request->ended)
        rpc_list_ended_dumps(call, request->target);
    else
        ask_verb(call, request->target, ENGINE_HEAP_LIST, reply_dumps);
}

void rpc_get_heap_gdump(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetHeapGdumpRequest *request = (const void *)message;
    ask_verb(call, request->target, ENGINE_HEAP_STATUS, reply_gdump);
}

void rpc_set_heap_gdump(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__SetHeapGdumpRequest *request = (const void *)message;
    ask_verb(call, request->target, request->active ? ENGINE_HEAP_GDUMP_ON : ENGINE_HEAP_GDUMP_OFF,
             reply_gdump);
}
