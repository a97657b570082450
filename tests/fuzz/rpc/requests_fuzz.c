/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile requests: the first byte selects the method; the rest is decoded as its request and
 * checked by the functions that the handler uses. An accepted request must be within the limits. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/method_table.h"
#include "service/rpc/request/params.h"
#include "service/rpc/symbols/symbolize_request.h"

#include <stdlib.h>
#include <string.h>

static void must(bool condition) {
    if (!condition)
        abort();
}

static void check_spec(const struct engine_cpu_spec *spec) {
    must(spec->frequency_hz >= 1 && spec->frequency_hz <= 10000);
    must(spec->duration_ms <= 3600000 && spec->target.pid >= 0);
    must(strlen(spec->target.name) <= 63 && strlen(spec->target.uuid) <= 32);
}

static void check_capture(const void *request) {
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    struct sonde_diag diag = {0};
    if (rpc_capture_spec(request, NULL, &spec, &rendering, &diag))
        return;
    check_spec(&spec);
    must(spec.duration_ms >= 1 && rendering.info);
}

static void check_stream(const void *request) {
    struct engine_cpu_spec spec;
    struct sonde_diag diag = {0};
    if (rpc_stream_spec(request, NULL, &spec, &diag))
        return;
    check_spec(&spec);
    must(spec.window_ms >= 50 && spec.window_ms <= 60000);
}

static void check_session(const void *message) {
    const Sonde__V1__StartCpuRequest *request = message;
    struct engine_cpu_spec spec;
    struct sonde_diag diag = {0};
    uint32_t lease_ms = 0;
    if (rpc_session_spec(request, NULL, &spec, &lease_ms, &diag))
        return;
    check_spec(&spec);
    must(lease_ms >= 1 && lease_ms <= 3600000 && strlen(request->owner) <= 64);
}

static void check_symbolize(const void *message) {
    const Sonde__V1__SymbolizeRequest *request = message;
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    if (rpc_symbolize_check(request, &selector, &diag) == SONDE_OK)
        must(request->n_addresses <= ENGINE_MAX_ADDRESSES);
    struct sonde_arena arena = {0};
    struct symbolize_source source;
    struct symbolize_request ask = {0};
    if (symbolize_request_read(request, &ask, &diag) == SONDE_OK &&
        symbolize_request_read_source(request, &arena, &source, &diag) == SONDE_OK) {
        must(ask.count <= ENGINE_MAX_ADDRESSES && ask.wait_ms <= RPC_MAX_WAIT_MS);
        must(!source.file.build_id || strlen(source.file.build_id) <= 64);
        must(source.file.mapping_count <= RPC_MAX_SYMBOL_MAPPINGS);
    }
    sonde_arena_finish(&arena);
}

static void check_selector(const void *message) {
    const Sonde__V1__GetCommandLineRequest *request = message;
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    struct sonde_arena arena = {0};
    if (rpc_selector(request->target, &selector, &diag) == SONDE_OK)
        must(strlen(rpc_text(&arena, selector.name)) <= 4 * 63);
    sonde_arena_finish(&arena);
}

static void check_selection(const void *message) {
    const Sonde__V1__QueryProfileRequest *request = message;
    static struct rpc_history history;
    struct history_query query = {.history = &history};
    struct history_selection selection;
    struct sonde_diag diag = {0};
    sonde_err err =
        history_selection_read(&query, request->selection, "selection", &selection, &diag);
    if (!err) {
        must(selection.query.from_unix_s >= 0 && selection.query.until_unix_s >= 0);
        must(strlen(selection.query.service) <= STORE_MAX_TEXT && selection.query.event[0]);
    }
    must(err == SONDE_OK || diag.text[0]);
    history_selection_finish(&selection);
}

static void check_request(const struct rpc_method *method, const void *request) {
    const ProtobufCMessageDescriptor *type = method->request;
    if (type == &sonde__v1__capture_cpu_request__descriptor)
        check_capture(request);
    else if (type == &sonde__v1__stream_cpu_request__descriptor)
        check_stream(request);
    else if (type == &sonde__v1__start_cpu_request__descriptor)
        check_session(request);
    else if (type == &sonde__v1__symbolize_request__descriptor)
        check_symbolize(request);
    else if (type == &sonde__v1__get_command_line_request__descriptor)
        check_selector(request);
    else if (type == &sonde__v1__query_profile_request__descriptor)
        check_selection(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    ProtobufCMessage *message = NULL;
    if (size == 0)
        return 0;
    const struct rpc_method *method = &rpc_methods[data[0] % rpc_method_count];
    if (rpc_decode_bytes(data + 1, size - 1, method->request, &arena, &message, &diag) == SONDE_OK)
        check_request(method, message);
    must(arena.total <= RPC_MAX_DECODED_BYTES + (1u << 16));
    sonde_arena_finish(&arena);
    return 0;
}
