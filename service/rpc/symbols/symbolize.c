/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolize: the engine answers on a worker, which packs the whole response; only its bytes are
 * passed to the loop. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/symbols/names_only.h"
#include "service/rpc/symbols/symbolize_request.h"
#include "service/symbol/symbol.h"

#include <stdlib.h>

struct answer {
    struct symbolize_request query;
    struct symbolize_source source;
    bool names_only, name_allocators;
    grpc_slice packed;
};

static Sonde__V1__SymbolFrame *make_frame(struct sonde_arena *arena,
                                          const struct symbol_frame *frame) {
    Sonde__V1__SymbolFrame *message = sonde_arena_alloc(arena, sizeof *message);
    if (!message)
        return NULL;
    sonde__v1__symbol_frame__init(message);
    message->name = (char *)rpc_text(arena, frame->name);
    message->system_name = (char *)rpc_text(arena, frame->system_name);
    message->file = (char *)rpc_text(arena, frame->file);
    message->line = frame->line;
    message->offset = frame->offset;
    return message;
}

static Sonde__V1__AddressSymbols *make_symbols(struct sonde_arena *arena,
                                               const struct engine_symbol *symbol) {
    Sonde__V1__AddressSymbols *message = sonde_arena_alloc(arena, sizeof *message);
    if (!message)
        return NULL;
    sonde__v1__address_symbols__init(message);
    message->frames = sonde_arena_alloc(arena, (symbol->frame_count + 1) * sizeof *message->frames);
    for (uint32_t i = 0; message->frames && i < symbol->frame_count; i++)
        if ((message->frames[i] = make_frame(arena, &symbol->frames[i])))
            message->n_frames = i + 1;
        else
            return NULL;
    message->module = (char *)rpc_text(arena, symbol->module);
    message->build_id = (char *)rpc_text(arena, symbol->build_id);
    message->module_offset = symbol->module_offset;
    message->quality = (Sonde__V1__AddressSymbols__Quality)symbol->quality;
    message->reason = (char *)symbol->reason;
    message->kind = (Sonde__V1__FrameKind)symbol->kind;
    message->is_folded = symbol->is_folded;
    return message->frames ? message : NULL;
}

static sonde_err pack(struct symbolize_request *query, const struct engine_symbol *symbols,
                      size_t count) {
    struct answer *answer = container_of(query, struct answer, query);
    Sonde__V1__SymbolizeResponse response = SONDE__V1__SYMBOLIZE_RESPONSE__INIT;
    struct sonde_arena arena = {0};
    sonde_err err = SONDE_OK;
    if (answer->names_only)
        return names_only_pack(symbols, count, answer->name_allocators, &answer->packed);
    response.symbols = sonde_arena_alloc(&arena, (count + 1) * sizeof *response.symbols);
    for (size_t i = 0; response.symbols && i < count; i++)
        if ((response.symbols[i] = make_symbols(&arena, &symbols[i])))
            response.n_symbols = i + 1;
        else
            break;
    if (response.n_symbols == count && response.symbols)
        answer->packed = rpc_pack(&response.base);
    else
        err = SONDE_OUT_OF_MEMORY;
    sonde_arena_finish(&arena);
    return err;
}

static void on_done(struct symbolize_request *query, sonde_err err, const struct sonde_diag *diag) {
    struct answer *answer = container_of(query, struct answer, query);
    struct rpc_call *call = query->call;
    rpc_call_set(call, &rpc_no_events, NULL);
    if (err)
        rpc_finish(call, err, diag);
    else
        rpc_reply_slice(call, answer->packed);
    free(answer);
}

static void hurry(struct rpc_call *call) {
    struct answer *answer = rpc_call_state(call);
    symbolize_request_hurry(&answer->query);
}

/* The kernel hides its addresses from users, who could find them by asking for the names of many:
 * for other users of the machine they stay unnamed, also in root's processes. */
static void hide_kernel(const Sonde__V1__SymbolizeRequest *request) {
    for (size_t i = 0; i < request->n_addresses; i++)
        if (request->addresses[i] >> 63)
            request->addresses[i] = 0;
}

void rpc_symbolize(struct rpc_call *call, const ProtobufCMessage *message) {
    static const struct rpc_call_events events = {.on_gone = hurry, .on_stop = hurry};
    const Sonde__V1__SymbolizeRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct answer *answer = calloc(1, sizeof *answer);
    sonde_err err =
        answer ? symbolize_request_read(request, &answer->query, &diag) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = symbolize_request_read_source(request, rpc_call_arena(call), &answer->source, &diag);
    if (err) {
        free(answer);
        rpc_finish(call, err, &diag);
        return;
    }
    if (rpc_call_is_for_other(call))
        hide_kernel(request);
    answer->names_only = request->names_only;
    answer->name_allocators = request->name_allocators;
    answer->query.call = call;
    answer->query.source = &answer->source;
    answer->query.pack = pack;
    answer->query.on_done = on_done;
    rpc_call_note(call, " addresses=%zu", request->n_addresses);
    rpc_call_set(call, &events, answer);
    symbolize_request_start(&answer->query);
}
