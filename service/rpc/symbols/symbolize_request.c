/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/symbols/symbolize_request.h"

#include "api/base/clock.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"

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

bool symbolize_request_has_source(const Sonde__V1__SymbolizeRequest *request) {
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
                               struct sonde_arena *arena, struct symbolize_source *source,
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
            err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                             "mappings: start 0x%llx must be below end 0x%llx",
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
                             struct symbolize_source *source, struct sonde_diag *diag) {
    struct engine_selector selector;
    sonde_err err = rpc_selector(request->target, &selector, diag);
    if (err)
        return err;
    source->is_target = true;
    source->selector = (struct engine_selector){.name = keep(arena, selector.name),
                                                .pid = selector.pid,
                                                .uuid = keep(arena, selector.uuid)};
    return source->selector.name && source->selector.uuid ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err symbolize_request_read_source(const Sonde__V1__SymbolizeRequest *request,
                                        struct sonde_arena *arena, struct symbolize_source *source,
                                        struct sonde_diag *diag) {
    *source = (struct symbolize_source){0};
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

sonde_err symbolize_request_read(const Sonde__V1__SymbolizeRequest *request,
                                 struct symbolize_request *query, struct sonde_diag *diag) {
    struct engine_selector unused;
    sonde_err err = rpc_symbolize_check(request, &unused, diag);
    if (err)
        return err;
    if (request->wait_ms > RPC_MAX_WAIT_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "wait_ms: \"%u\" is not a whole number from 0 to %d", request->wait_ms,
                          RPC_MAX_WAIT_MS);
    query->addresses = request->addresses;
    query->count = request->n_addresses;
    query->return_addresses = request->kind == SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN;
    query->wait_ms = request->wait_ms;
    return SONDE_OK;
}

/* --- asking ------------------------------------------------------------------------------------
 */

static void finish(struct symbolize_request *query, sonde_err err, const struct sonde_diag *diag) {
    struct rpc_call *call = query->call;
    query->on_done(query, err, diag);
    rpc_call_drop(call);
}

static bool should_wait(const struct symbolize_request *query, const struct engine_symbol *symbols,
                        size_t count) {
    if (query->hurries || query->wait_ms == 0 || clock_ns(CLOCK_MONOTONIC) >= query->deadline_ns)
        return false;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].is_improving)
            return true;
    return false;
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct symbolize_request *query = context;
    query->again = !err && should_wait(query, symbols, count);
    query->err = err;
    if (diag)
        query->diag = *diag;
    if (!err && !query->again)
        query->err = query->pack(query, symbols, count);
    loop_post(rpc_call_server(query->call)->loop, &query->message);
}

static void put(struct symbolize_request *query) {
    struct engine *engine = rpc_call_server(query->call)->engine;
    const struct symbolize_source *source = query->source;
    struct sonde_diag diag = {0};
    sonde_err err;
    if (source->is_target)
        err = engine_symbolize(engine, &source->selector, query->addresses, query->count,
                               query->return_addresses, on_symbols, query, &diag);
    else
        err = engine_symbolize_files(engine, &source->file, query->addresses, query->count,
                                     query->return_addresses, on_symbols, query, &diag);
    if (err)
        finish(query, err, &diag);
}

static void on_pause_over(struct loop_timer *timer) {
    put(container_of(timer, struct symbolize_request, timer));
}

static void on_answer(struct loop_message *message) {
    struct symbolize_request *query = container_of(message, struct symbolize_request, message);
    if (!query->again) {
        finish(query, query->err, &query->diag);
        return;
    }
    int64_t left_ms = (query->deadline_ns - clock_ns(CLOCK_MONOTONIC)) / 1000000;
    uint32_t pause_ms =
        left_ms < query->pause_ms ? (uint32_t)(left_ms > 0 ? left_ms : 0) : query->pause_ms;
    query->pause_ms = query->pause_ms * 2 < LAST_PAUSE_MS ? query->pause_ms * 2 : LAST_PAUSE_MS;
    query->timer.run = on_pause_over;
    if (query->hurries)
        put(query);
    else
        loop_timer_set(rpc_call_server(query->call)->loop, &query->timer, pause_ms + 1);
}

void symbolize_request_start(struct symbolize_request *query) {
    rpc_call_take(query->call);
    query->message.run = on_answer;
    query->pause_ms = FIRST_PAUSE_MS;
    query->deadline_ns = clock_ns(CLOCK_MONOTONIC) + (int64_t)query->wait_ms * 1000000;
    put(query);
}

void symbolize_request_hurry(struct symbolize_request *query) {
    query->hurries = true;
    if (!query->timer.is_set)
        return;
    loop_timer_clear(rpc_call_server(query->call)->loop, &query->timer);
    put(query);
}
