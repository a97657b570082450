/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line in Go's form: arguments separated by NUL, without one at the end. A final NUL
 * breaks jeprof if there is only one argument, and so does an empty body. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#define DEADLINE_MS 5000

static void on_command_line(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__CommandLine *line = (const void *)message;
    size_t count = relay->gateway->redact_arguments && line->n_arguments ? 1 : line->n_arguments;
    struct sonde_buf text = {0};
    for (size_t i = 0; i < count; i++) {
        if (i)
            sonde_buf_putc(&text, 0);
        sonde_buf_puts(&text, line->arguments[i]);
    }
    if (text.len == 0 || text.data[0] == 0)
        sonde_buf_puts(&text, "[unknown]");
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

void handle_cmdline(const struct request_context *context) {
    static const struct relay_events events = {.on_message = on_command_line};
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    relay_call(relay, &client_get_command_line, &request.base, DEADLINE_MS);
}
