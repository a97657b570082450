/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's /debug/pprof/goroutine and /debug/pprof/threadcreate, for the threads of a native process:
 * pprof, or in the text forms of Go:
 *
 *     debug=2   every thread with its stack, as `sonde threads` prints it
 *     debug=1   goroutine profile: total 5
 *               4 @ 0x7f3a12 0x55d0c1
 *               #   0x7f3a12   epoll_wait+0x12   /usr/lib/libc.so.6 */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include "api/text/utf8.h"

#include <inttypes.h>
#include <string.h>

#define DEADLINE_MS 60000

struct threads_reply {
    struct profile_reply profile;
    bool by_start_function;
};

static void on_profile(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    const struct sonde_slice body = {(const char *)backtraces->profile.data,
                                     backtraces->profile.len};
    profile_reply_answer((struct profile_reply *)relay, body);
}

static void on_text(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_slice_of(backtraces->text));
}

/* ---- debug=1 ---- */

static void append_frame(struct sonde_buf *out, const Sonde__V1__SymbolFrameOfThread *frame) {
    sonde_buf_printf(out, "#\t0x%" PRIx64 "\t", frame->address);
    /* Names are the target's: control characters would end a line. */
    sonde_utf8_put(out, frame->name[0] ? frame->name : "??", '?');
    sonde_buf_putc(out, '\t');
    sonde_utf8_put(out, frame->file[0] ? frame->file : frame->module, '?');
    if (frame->line)
        sonde_buf_printf(out, ":%" PRIu32, frame->line);
    sonde_buf_putc(out, '\n');
}

static void append_stack(struct sonde_buf *out, size_t threads,
                         const Sonde__V1__ThreadStack *stack) {
    sonde_buf_printf(out, "%zu @", threads);
    for (size_t i = 0; i < stack->n_frames; i++)
        if (!stack->frames[i]->inlined)
            sonde_buf_printf(out, " 0x%" PRIx64, stack->frames[i]->address);
    sonde_buf_putc(out, '\n');
    for (size_t i = 0; i < stack->n_frames; i++)
        append_frame(out, stack->frames[i]);
    sonde_buf_putc(out, '\n');
}

static size_t count_threads(const Sonde__V1__Backtraces *backtraces, size_t stack) {
    size_t count = 0;
    for (size_t i = 0; i < backtraces->n_threads; i++)
        count += backtraces->threads[i]->stack == stack + 1;
    return count;
}

static void on_stacks(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    struct sonde_buf text = {0};
    sonde_buf_printf(&text, "%s profile: total %zu\n",
                     ((struct threads_reply *)relay)->by_start_function ? "threadcreate"
                                                                        : "goroutine",
                     backtraces->n_threads);
    for (size_t i = 0; i < backtraces->n_stacks; i++)
        append_stack(&text, count_threads(backtraces, i), backtraces->stacks[i]);
    if (backtraces->note[0]) {
        sonde_buf_puts(&text, "# ");
        sonde_utf8_put(&text, backtraces->note, '?');
        sonde_buf_putc(&text, '\n');
    }
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

/* ---- The request ---- */

static void ask(struct threads_reply *reply, uint64_t debug) {
    static const struct relay_events profile = {.on_message = on_profile};
    static const struct relay_events stacks = {.on_message = on_stacks};
    static const struct relay_events text = {.on_message = on_text};
    struct relay *relay = &reply->profile.relay;
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.as_text = debug == 2;
    request.rendering = debug ? NULL : &rendering;
    request.by_start_function = reply->by_start_function;
    relay->events = debug == 2 ? &text : debug ? &stacks : &profile;
    relay_call(relay, &client_get_backtraces, &request.base, DEADLINE_MS);
}

static void answer_text_head(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "");
}

static void handle_threads(const struct request_context *context, bool by_start_function) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    uint64_t debug = 0;
    sonde_err err = query_whole(&context->query, "debug", 0, 2, &debug, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    struct threads_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->by_start_function = by_start_function;
    if (!context->head)
        ask(reply, debug);
    else if (debug)
        relay_check_target(&reply->profile.relay, answer_text_head);
    else
        profile_reply_check_target(&reply->profile);
}

void handle_goroutine(const struct request_context *context) {
    handle_threads(context, false);
}

void handle_threadcreate(const struct request_context *context) {
    handle_threads(context, true);
}
