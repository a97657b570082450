/* SPDX-License-Identifier: Apache-2.0
 *
 * SymbolizeStream: many batches over one dictionary. Each batch is answered completely before the
 * next is read, so a stream holds one batch and its answer. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/symbols/symbol_dictionary.h"
#include "service/rpc/symbols/symbolize_request.h"

#include <stdlib.h>

struct stream {
    struct symbolize_request query;
    bool is_asking, has_source;
    struct symbolize_source source;
    struct sonde_arena source_arena;
    struct symbol_tables tables;
    struct symbol_parts parts;
    size_t sent; /* of parts */
    uint64_t addresses;
};

static void send_next(struct rpc_call *call) {
    struct stream *stream = rpc_call_state(call);
    if (stream->sent < stream->parts.count)
        rpc_send_slice(call, stream->parts.items[stream->sent++]); /* which takes it */
    else
        symbol_parts_finish(&stream->parts, stream->sent), stream->sent = 0;
}

static sonde_err pack(struct symbolize_request *query, const struct engine_symbol *symbols,
                      size_t count) {
    struct stream *stream = container_of(query, struct stream, query);
    return symbol_tables_pack(&stream->tables, symbols, count, &stream->parts);
}

static void on_done(struct symbolize_request *query, sonde_err err, const struct sonde_diag *diag) {
    struct stream *stream = container_of(query, struct stream, query);
    stream->is_asking = false;
    if (err)
        rpc_finish(query->call, err, diag);
    else
        send_next(query->call);
}

static void on_gone(struct rpc_call *call) {
    struct stream *stream = rpc_call_state(call);
    if (stream->is_asking)
        symbolize_request_hurry(&stream->query);
}

/* A stream has no end of its own: at shutdown it ends between two batches. */
static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    sonde_err err = sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping");
    on_gone(call);
    rpc_finish(call, err, &diag);
}

static void release(struct rpc_call *call) {
    struct stream *stream = rpc_call_state(call);
    rpc_call_note(call, " addresses=%llu", (unsigned long long)stream->addresses);
    symbol_parts_finish(&stream->parts, stream->sent);
    symbol_tables_finish(&stream->tables);
    sonde_arena_finish(&stream->source_arena);
    free(stream);
}

static struct stream *create(struct rpc_call *call) {
    static const struct rpc_call_events events = {
        .on_sent = send_next, .on_gone = on_gone, .on_stop = on_stop, .release = release};
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    symbol_tables_init(&stream->tables, SYMBOL_TABLES_LIMIT);
    rpc_call_set(call, &events, stream);
    return stream;
}

static sonde_err set_source(struct stream *stream, const Sonde__V1__SymbolizeRequest *request,
                            struct sonde_diag *diag) {
    if (stream->has_source && !symbolize_request_has_source(request))
        return SONDE_OK;
    sonde_arena_finish(&stream->source_arena);
    stream->has_source = true;
    return symbolize_request_read_source(request, &stream->source_arena, &stream->source, diag);
}

void rpc_symbolize_stream(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__SymbolizeRequest *request = (const void *)message;
    struct stream *stream = rpc_call_state(call);
    struct sonde_diag diag = {0};
    if (!stream)
        stream = create(call);
    sonde_err err = stream ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err) {
        stream->query = (struct symbolize_request){
            .call = call, .source = &stream->source, .pack = pack, .on_done = on_done};
        err = symbolize_request_read(request, &stream->query, &diag);
    }
    if (!err)
        err = set_source(stream, request, &diag);
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    stream->addresses += request->n_addresses;
    stream->is_asking = true;
    symbolize_request_start(&stream->query);
}
