/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolize: the engine answers on a worker, where the whole response is packed; only its bytes
 * cross to the loop. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/handlers.h"
#include "service/rpc/inside.h"
#include "service/rpc/params.h"
#include "service/rpc/text.h"
#include "service/symbol/symbol.h"

#include <stdlib.h>

struct answer {
    struct loop_message message;
    struct rpc_call *call;
    sonde_err err;
    struct sonde_diag diag;
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
    return message->frames ? message : NULL;
}

static sonde_err pack(struct answer *answer, const struct engine_symbol *symbols, size_t count) {
    Sonde__V1__SymbolizeResponse response = SONDE__V1__SYMBOLIZE_RESPONSE__INIT;
    struct sonde_arena arena = {0};
    sonde_err err = SONDE_OK;
    response.symbols = sonde_arena_alloc(&arena, (count + 1) * sizeof *response.symbols);
    for (size_t i = 0; response.symbols && i < count; i++)
        if ((response.symbols[i] = make_symbols(&arena, &symbols[i])))
            response.n_symbols = i + 1;
    if (response.n_symbols == count && response.symbols)
        answer->packed = rpc_pack(&response.base);
    else
        err = SONDE_OUT_OF_MEMORY;
    sonde_arena_finish(&arena);
    return err;
}

static void reply(struct loop_message *message) {
    struct answer *answer = loop_owner(message, struct answer, message);
    if (answer->err)
        rpc_finish(answer->call, answer->err, &answer->diag);
    else
        rpc_reply_slice(answer->call, answer->packed);
    rpc_call_drop(answer->call);
    free(answer);
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct answer *answer = context;
    answer->err = err ? err : pack(answer, symbols, count);
    if (diag)
        answer->diag = *diag;
    loop_post(rpc_call_server(answer->call)->loop, &answer->message);
}

void rpc_symbolize(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__SymbolizeRequest *request = (const void *)message;
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    struct answer *answer = NULL;
    sonde_err err = rpc_symbolize_check(request, &selector, &diag);
    if (!err && !(answer = calloc(1, sizeof *answer)))
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        answer->call = call;
        answer->message.run = reply;
        rpc_call_note(call, " addresses=%zu", request->n_addresses);
        rpc_call_take(call);
        err = engine_symbolize(rpc_call_server(call)->engine, &selector, request->addresses,
                               request->n_addresses,
                               request->kind == SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN,
                               on_symbols, answer, &diag);
        if (err)
            rpc_call_drop(call);
    }
    if (err) {
        free(answer);
        rpc_finish(call, err, &diag);
    }
}
