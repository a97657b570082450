/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for addresses, one line each in the order of the request. The body is taken in batches,
 * each one call; a request of one batch is a whole answer, a longer one a stream whose next batch
 * is asked for when the reader has taken the last: memory stays small however many addresses come.
 */
#include "gateway/handlers.h"
#include "gateway/request/relay.h"
#include "gateway/request/reply.h"
#include "gateway/request/symbol_body.h"
#include "gateway/request/symbol_lines.h"

#define BATCH       4096
#define DEADLINE_MS 60000
#define MAX_TEXT    CLIENT_MAX_MESSAGE_BYTES /* of a batch: a name may be told often */

struct symbols {
    struct relay relay;
    struct sonde_slice body; /* what is still to be asked */
    bool go;                 /* does not split inlined chains */
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
    symbol_lines_append(&symbols->text, symbols->addresses, symbols->count, response, symbols->go);
}

/* A batch is there. */
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
        http_stream_send(relay->request, text); /* a batch has an address, so a line */
        if (last)
            http_stream_end(relay_take_request(relay));
    }
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct symbols *symbols = (struct symbols *)relay;
    struct sonde_diag too_large = {0};
    if (err == SONDE_OK && symbols->text.failed) {
        err = sonde_fail(&too_large, SONDE_TOO_LARGE,
                         "the names are longer than %u MiB: ask for fewer addresses at once",
                         MAX_TEXT >> 20);
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

static bool has_address(struct sonde_slice body) {
    uint64_t address;
    return symbol_body_next(&body, &address);
}

void handle_symbol(struct visit *visit) {
    static const struct relay_events events = {on_symbols, on_end, finish};
    struct symbols *symbols = relay_create(visit, sizeof *symbols, &events);
    symbols->body = http_request_body(visit->request);
    symbols->go = negotiate_is_go(&visit->headers);
    symbols->text.limit = MAX_TEXT;
    if (!sonde_slice_equals(http_request_method(visit->request), "POST"))
        relay_check_target(&symbols->relay, answer_count);
    else if (!has_address(symbols->body))
        relay_check_target(&symbols->relay, answer_nothing);
    else
        ask_next(symbols);
}
