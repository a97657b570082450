/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/symbols/symbol_query.h"

#include "service/rpc/core/server_state.h"
#include "service/rpc/methods/params.h"

#include <string.h>
#include <time.h>

#define FIRST_PAUSE_MS 20
#define LAST_PAUSE_MS  500
#define MAX_BUILD_ID   64

/* --- reading -----------------------------------------------------------------------------------
 */

static bool has_target(const Sonde__V1__TargetSelector *target) {
    return target && (target->name[0] || target->pid || target->uuid[0]);
}

bool ask_has_source(const Sonde__V1__SymbolizeRequest *request) {
    return has_target(request->target) || request->build_id[0] || request->n_mappings > 0;
}

static sonde_err check_build_id(const char *name, const char *text, struct sonde_diag *diag) {
    size_t len = strlen(text);
    if (len <= MAX_BUILD_ID && strspn(text, "0123456789abcdefABCDEF") == len)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "%s: \"%.80s\" is no build-id: at most 64 hexadecimal digits", name, text);
}

static sonde_err read_mappings(const Sonde__V1__SymbolizeRequest *request,
                               struct sonde_arena *arena, struct ask_source *source,
                               struct sonde_diag *diag) {
    size_t count = request->n_mappings;
    if (count > RPC_MAX_SYMBOL_MAPPINGS)
        return sonde_fail(diag, SONDE_TOO_LARGE, "mappings: %zu are too many; at most %d", count,
                          RPC_MAX_SYMBOL_MAPPINGS);
    struct engine_symbol_mapping *mappings = sonde_arena_alloc(arena, count * sizeof *mappings + 1);
    sonde_err err = mappings ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++) {
        const Sonde__V1__SymbolMapping *from = request->mappings[i];
        char *build_id = sonde_arena_dup(arena, from->build_id, strlen(from->build_id));
        mappings[i] =
            (struct engine_symbol_mapping){from->start, from->limit, from->offset, build_id};
        err = build_id ? check_build_id("mappings.build_id", build_id, diag) : SONDE_OUT_OF_MEMORY;
        if (!err && from->start >= from->limit)
            err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "mappings: 0x%llx to 0x%llx is no range",
                             (unsigned long long)from->start, (unsigned long long)from->limit);
    }
    source->file.mappings = mappings;
    source->file.mapping_count = count;
    return err;
}

static char *keep(struct sonde_arena *arena, const char *text) {
    return sonde_arena_dup(arena, text, strlen(text));
}

static sonde_err read_target(const Sonde__V1__SymbolizeRequest *request, struct sonde_arena *arena,
                             struct ask_source *source, struct sonde_diag *diag) {
    struct engine_selector selector;
    sonde_err err = rpc_selector(request->target, &selector, diag);
    if (err)
        return err;
    source->is_target = true;
    source->selector = (struct engine_selector){keep(arena, selector.name), selector.pid,
                                                keep(arena, selector.uuid)};
    return source->selector.name && source->selector.uuid ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err ask_read_source(const Sonde__V1__SymbolizeRequest *request, struct sonde_arena *arena,
                          struct ask_source *source, struct sonde_diag *diag) {
    *source = (struct ask_source){0};
    if (has_target(request->target) + (request->build_id[0] != 0) + (request->n_mappings > 0) > 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the addresses are of a target, of a build_id or of mappings: say one");
    if (request->n_mappings > 0)
        return read_mappings(request, arena, source, diag);
    if (!request->build_id[0])
        return read_target(request, arena, source, diag);
    source->file.build_id = keep(arena, request->build_id);
    return source->file.build_id ? check_build_id("build_id", request->build_id, diag)
                                 : SONDE_OUT_OF_MEMORY;
}

sonde_err ask_read(const Sonde__V1__SymbolizeRequest *request, struct ask *ask,
                   struct sonde_diag *diag) {
    struct engine_selector unused;
    sonde_err err = rpc_symbolize_check(request, &unused, diag);
    if (err)
        return err;
    if (request->wait_ms > RPC_MAX_WAIT_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "wait_ms: \"%u\" is not a whole number from 0 to %d", request->wait_ms,
                          RPC_MAX_WAIT_MS);
    ask->addresses = request->addresses;
    ask->count = request->n_addresses;
    ask->return_addresses = request->kind == SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN;
    ask->wait_ms = request->wait_ms;
    return SONDE_OK;
}

/* --- asking ------------------------------------------------------------------------------------
 */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void finish(struct ask *ask, sonde_err err, const struct sonde_diag *diag) {
    struct rpc_call *call = ask->call;
    ask->on_done(ask, err, diag);
    rpc_call_drop(call);
}

static bool should_wait(const struct ask *ask, const struct engine_symbol *symbols, size_t count) {
    if (ask->hurries || ask->wait_ms == 0 || now_ns() >= ask->deadline_ns)
        return false;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].is_improving)
            return true;
    return false;
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct ask *ask = context;
    ask->again = !err && should_wait(ask, symbols, count);
    ask->err = err;
    if (diag)
        ask->diag = *diag;
    if (!err && !ask->again)
        ask->err = ask->pack(ask, symbols, count);
    loop_post(rpc_call_server(ask->call)->loop, &ask->message);
}

static void put(struct ask *ask) {
    struct engine *engine = rpc_call_server(ask->call)->engine;
    const struct ask_source *source = ask->source;
    struct sonde_diag diag = {0};
    sonde_err err;
    if (source->is_target)
        err = engine_symbolize(engine, &source->selector, ask->addresses, ask->count,
                               ask->return_addresses, on_symbols, ask, &diag);
    else
        err = engine_symbolize_files(engine, &source->file, ask->addresses, ask->count,
                                     ask->return_addresses, on_symbols, ask, &diag);
    if (err)
        finish(ask, err, &diag);
}

static void on_pause_over(struct loop_timer *timer) {
    put(loop_owner(timer, struct ask, timer));
}

static void on_answer(struct loop_message *message) {
    struct ask *ask = loop_owner(message, struct ask, message);
    if (!ask->again) {
        finish(ask, ask->err, &ask->diag);
        return;
    }
    int64_t left_ms = (ask->deadline_ns - now_ns()) / 1000000;
    uint32_t pause_ms =
        left_ms < ask->pause_ms ? (uint32_t)(left_ms > 0 ? left_ms : 0) : ask->pause_ms;
    ask->pause_ms = ask->pause_ms * 2 < LAST_PAUSE_MS ? ask->pause_ms * 2 : LAST_PAUSE_MS;
    ask->timer.run = on_pause_over;
    if (ask->hurries)
        put(ask);
    else
        loop_timer_set(rpc_call_server(ask->call)->loop, &ask->timer, pause_ms + 1);
}

void ask_start(struct ask *ask) {
    rpc_call_take(ask->call);
    ask->message.run = on_answer;
    ask->pause_ms = FIRST_PAUSE_MS;
    ask->deadline_ns = now_ns() + (int64_t)ask->wait_ms * 1000000;
    put(ask);
}

void ask_hurry(struct ask *ask) {
    ask->hurries = true;
    if (!ask->timer.is_set)
        return;
    loop_timer_clear(rpc_call_server(ask->call)->loop, &ask->timer);
    put(ask);
}
