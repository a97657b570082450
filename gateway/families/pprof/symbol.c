/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for addresses, one line each in the order of the request: /debug/pprof/symbol and its
 * aliases. The body is split into batches, each of which is one call. One batch is answered as a
 * whole. More are streamed, and the next call starts when the reader has taken the last batch, so
 * memory is bounded however many addresses a request has.
 *
 * An address means nothing without its process, so of several processes (/t/@all) every address is
 * unknown. That is not an error: go tool pprof asks beside each profile for the functions that have
 * no name, and gives up on the profile when it is refused. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"
#include "gateway/reply/symbol_lines.h"
#include "gateway/request/symbol_body.h"

#include <inttypes.h>

#define BATCH       4096
#define DEADLINE_MS 60000
#define MAX_TEXT    CLIENT_MAX_MESSAGE_BYTES /* of a batch, in which a name may repeat */

struct symbols {
    struct relay relay;
    struct sonde_slice body; /* not yet asked for */
    bool is_go;              /* Go's tools do not split lines into inlined functions */
    bool started;
    size_t count;
    uint64_t addresses[BATCH];
    struct sonde_buf text;
};

static void ask_next(struct symbols *symbols) {
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&symbols->relay.target);
    symbols->count = 0;
    while (symbols->count < BATCH &&
           symbol_body_next(&symbols->body, &symbols->addresses[symbols->count]))
        symbols->count++;
    request.target = &selector;
    request.addresses = symbols->addresses;
    request.n_addresses = symbols->count;
    request.names_only = true;
    request.name_allocators = true;
    relay_call(&symbols->relay, &client_symbolize, &request.base, DEADLINE_MS);
}

static void on_ready(void *context) {
    struct symbols *symbols = context;
    symbols->text.len = 0;
    ask_next(symbols);
}

static void on_symbols(struct relay *relay, const ProtobufCMessage *message) {
    struct symbols *symbols = (struct symbols *)relay;
    const Sonde__V1__SymbolizeResponse *response = (const void *)message;
    symbol_lines_append(&symbols->text, symbols->addresses, symbols->count, response,
                        symbols->is_go);
}

static void answer_batch(struct symbols *symbols, sonde_err err, const struct sonde_diag *diag) {
    struct relay *relay = &symbols->relay;
    struct sonde_slice text = sonde_buf_slice(&symbols->text);
    struct http_answer answer = {.status = 200, .content_type = REPLY_TEXT};
    bool last = symbols->body.len == 0;
    if (err && !symbols->started) {
        relay_refuse(relay, err, diag);
    } else if (err) {
        http_stream_cut(relay_take_request(relay));
    } else if (last && !symbols->started) {
        http_answer_take(relay_take_request(relay), &answer, &symbols->text);
    } else {
        if (!symbols->started)
            http_stream_start(relay->request, &answer, HTTP_UNKNOWN, on_ready, symbols);
        symbols->started = true;
        http_stream_send(relay->request, text); /* never empty: a batch has an address */
        if (last)
            http_stream_end(relay_take_request(relay));
    }
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct symbols *symbols = (struct symbols *)relay;
    struct sonde_diag too_large = {0};
    if (err == SONDE_OK && symbols->text.failed) {
        err =
            sonde_fail(&too_large, SONDE_TOO_LARGE,
                       "the names exceed %u MiB; send fewer addresses per request", MAX_TEXT >> 20);
        diag = &too_large;
    }
    answer_batch(symbols, err, diag);
}

static void finish(struct relay *relay) {
    sonde_buf_finish(&((struct symbols *)relay)->text);
}

static void answer_count(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "num_symbols: 1\n");
}

static void answer_nothing(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "");
}

/* Answers for several processes. */
static void answer_unknown(struct relay *relay) {
    struct symbols *symbols = (struct symbols *)relay;
    struct http_answer answer = {.status = 200, .content_type = REPLY_TEXT};
    for (uint64_t address; symbol_body_next(&symbols->body, &address);)
        sonde_buf_printf(&symbols->text, "0x%" PRIx64 " ??\n", address);
    http_answer_take(relay_take_request(relay), &answer, &symbols->text);
}

static bool has_address(struct sonde_slice body) {
    uint64_t address;
    return symbol_body_next(&body, &address);
}

void handle_symbol(const struct request_context *context) {
    static const struct relay_events events = {on_symbols, on_end, finish};
    struct symbols *symbols = relay_create(context, sizeof *symbols, &events);
    symbols->body = http_request_body(context->request);
    symbols->is_go = negotiate_reads_pprof(&context->headers);
    symbols->text.limit = MAX_TEXT;
    if (!sonde_slice_equals(http_request_method(context->request), "POST"))
        relay_check_target(&symbols->relay, answer_count);
    else if (!has_address(symbols->body))
        relay_check_target(&symbols->relay, answer_nothing);
    else if (context->target.all)
        relay_check_target(&symbols->relay, answer_unknown);
    else
        ask_next(symbols);
}
