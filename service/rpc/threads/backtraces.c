/* SPDX-License-Identifier: Apache-2.0
 *
 * GetBacktraces. */
#include "service/engine/backtraces/backtraces.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/request/params.h"
#include "service/rpc/threads/backtraces_profile.h"
#include "service/rpc/threads/backtraces_text.h"
#include "service/rpc/threads/lock_text.h"
#include "service/rpc/threads/packed_answer.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_PROFILE_BYTES (64u << 20)

struct answer {
    struct packed_answer base;
    bool as_text, as_profile, by_start_function, readable_names;
    struct rpc_rendering rendering; /* without a title, which would point into the request */
};

/* Messages of one type, and the array of pointers to them that protobuf-c needs. */
static void **make_messages(struct sonde_arena *arena, size_t count, size_t size) {
    void **pointers = sonde_arena_alloc(arena, (count + 1) * sizeof *pointers);
    char *messages = pointers ? sonde_arena_alloc(arena, (count + 1) * size) : NULL;
    for (size_t i = 0; messages && i < count; i++)
        pointers[i] = messages + i * size;
    return messages ? pointers : NULL;
}

static void fill_thread(struct sonde_arena *arena, const struct engine_thread *from,
                        Sonde__V1__ThreadBacktrace *thread) {
    const char state[2] = {from->state, 0};
    sonde__v1__thread_backtrace__init(thread);
    thread->tid = from->tid;
    thread->name = (char *)rpc_text(arena, from->name);
    thread->state = sonde_arena_dup(arena, state, 1);
    thread->wait_channel = (char *)rpc_text(arena, from->wait_channel);
    thread->cpu_ns = from->cpu_ns;
    thread->user_ns = from->user_ns;
    thread->system_ns = from->system_ns;
    thread->stack = from->stack;
    thread->stop_ns = from->stop_ns;
    thread->error = (char *)from->error;
}

/* The arena's copy; NULL = out of memory. */
static char *take_text(struct sonde_arena *arena, struct sonde_buf *text) {
    struct sonde_slice slice = sonde_buf_slice(text);
    char *copy = text->failed ? NULL : sonde_arena_dup(arena, slice.data, slice.len);
    sonde_buf_finish(text);
    return copy;
}

static bool fill_lock_wait(struct sonde_arena *arena, const struct engine_backtraces *from,
                           uint32_t number, const struct rpc_lock_names *names,
                           Sonde__V1__ThreadBacktrace *thread) {
    const struct engine_lock_wait *wait = from->threads[number].lock_wait;
    struct sonde_buf name = {0}, text = {0};
    const char *variable = names->variables[number]; /* short: many threads may wait for it */
    Sonde__V1__LockWait *message = sonde_arena_alloc(arena, sizeof *message);
    if (!message)
        return false;
    sonde__v1__lock_wait__init(message);
    sonde_buf_puts(&name, rpc_text(arena, variable));
    if (variable[0] && wait->name_offset)
        sonde_buf_printf(&name, "+0x%llx", (unsigned long long)wait->name_offset);
    rpc_lock_wait_text(from, number, names, &text);
    message->address = wait->address;
    message->lock = take_text(arena, &name);
    message->kind = (char *)sonde_wait_kind_name(wait->kind);
    message->owner = wait->owner;
    message->function = (char *)rpc_text(arena, names->functions[number]);
    message->readers = wait->readers;
    message->text = take_text(arena, &text);
    thread->lock_wait = message;
    return message->lock && message->text;
}

static bool fill_locks(struct sonde_arena *arena, const struct engine_backtraces *from,
                       Sonde__V1__Backtraces *message) {
    struct rpc_lock_names names;
    bool is_filled = rpc_lock_names_init(&names, from, arena);
    for (uint32_t i = 0; is_filled && i < from->thread_count; i++)
        if (from->threads[i].lock_wait)
            is_filled = fill_lock_wait(arena, from, i, &names, message->threads[i]);
    uint32_t deadlocks = rpc_deadlock_lines(from);
    message->deadlocks = sonde_arena_alloc(arena, (deadlocks + 1) * sizeof(char *));
    is_filled = is_filled && message->deadlocks;
    for (uint32_t i = 0; is_filled && i < deadlocks; i++) {
        struct sonde_buf text = {0};
        rpc_deadlock_line(from, i, &names, &text);
        message->deadlocks[i] = take_text(arena, &text);
        is_filled = message->deadlocks[i] != NULL;
        message->n_deadlocks += is_filled;
    }
    return is_filled;
}

static void fill_frame(struct sonde_arena *arena, const struct engine_thread_frame *from,
                       Sonde__V1__SymbolFrameOfThread *frame) {
    sonde__v1__symbol_frame_of_thread__init(frame);
    frame->name = (char *)rpc_text(arena, from->name);
    frame->file = (char *)rpc_text(arena, from->file);
    frame->module = (char *)rpc_text(arena, from->module);
    frame->line = from->line;
    frame->address = from->address;
    frame->kind = (Sonde__V1__FrameKind)from->kind;
    frame->inlined = from->is_inlined;
}

static bool fill_stack(struct sonde_arena *arena, const struct engine_thread_stack *from,
                       Sonde__V1__ThreadStack *stack) {
    sonde__v1__thread_stack__init(stack);
    stack->frames = (void *)make_messages(arena, from->count, sizeof **stack->frames);
    stack->n_frames = stack->frames ? from->count : 0;
    for (size_t i = 0; i < stack->n_frames; i++)
        fill_frame(arena, &from->frames[i], stack->frames[i]);
    return stack->frames != NULL;
}

static bool fill_stacks(struct sonde_arena *arena, const struct engine_backtraces *from,
                        Sonde__V1__Backtraces *message) {
    message->threads = (void *)make_messages(arena, from->thread_count, sizeof **message->threads);
    message->stacks = (void *)make_messages(arena, from->stack_count, sizeof **message->stacks);
    if (!message->threads || !message->stacks)
        return false;
    message->n_threads = from->thread_count;
    for (size_t i = 0; i < from->thread_count; i++)
        fill_thread(arena, &from->threads[i], message->threads[i]);
    message->n_stacks = from->stack_count;
    for (size_t i = 0; i < from->stack_count; i++)
        if (!fill_stack(arena, &from->stacks[i], message->stacks[i]))
            return false;
    return true;
}

static void fill_facts(const struct engine_backtraces *from, Sonde__V1__Backtraces *message) {
    message->unix_ns = from->unix_ns;
    message->longest_stop_ns = from->longest_stop_ns;
    message->total_stop_ns = from->total_stop_ns;
    message->not_walked = from->not_walked;
    message->note = (char *)from->note;
}

static sonde_err draw(struct answer *answer, const struct engine_backtraces *from,
                      struct sonde_buf *out) {
    struct sonde_profile *profile = NULL;
    sonde_err err = rpc_backtraces_profile(from, answer->by_start_function, &profile);
    if (!err) {
        const struct sonde_draw_options options =
            rpc_draw_options(profile, &answer->rendering.options);
        out->limit = MAX_PROFILE_BYTES;
        err = sonde_draw(profile, answer->rendering.format, &options, out, &answer->base.diag);
    }
    sonde_profile_destroy(profile);
    return err;
}

static sonde_err pack_profile(struct answer *answer, const struct engine_backtraces *from) {
    Sonde__V1__Backtraces message = SONDE__V1__BACKTRACES__INIT;
    struct sonde_buf drawn = {0};
    sonde_err err = draw(answer, from, &drawn);
    fill_facts(from, &message);
    message.profile = (ProtobufCBinaryData){drawn.len, (uint8_t *)drawn.data};
    if (!err)
        answer->base.packed = rpc_pack(&message.base);
    sonde_buf_finish(&drawn);
    return err;
}

static sonde_err pack(struct answer *answer, const struct engine_backtraces *from) {
    Sonde__V1__Backtraces message = SONDE__V1__BACKTRACES__INIT;
    struct sonde_arena arena = {0};
    struct sonde_buf text = {0};
    if (answer->as_text)
        rpc_backtraces_text(from, answer->readable_names, &text);
    if (text.data)
        message.text = text.data;
    fill_facts(from, &message);
    bool is_filled =
        fill_stacks(&arena, from, &message) && fill_locks(&arena, from, &message) && !text.failed;
    if (is_filled)
        answer->base.packed = rpc_pack(&message.base);
    sonde_buf_finish(&text);
    sonde_arena_finish(&arena);
    return is_filled ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static void on_backtraces(void *context, sonde_err err, const struct sonde_diag *diag,
                          const struct engine_backtraces *backtraces) {
    struct answer *answer = context;
    struct packed_answer *base = &answer->base;
    base->err = err;
    if (diag)
        base->diag = *diag;
    if (!err) {
        snprintf(base->note, sizeof base->note, " threads=%u stacks=%u longest_stop_us=%llu",
                 backtraces->thread_count, backtraces->stack_count,
                 (unsigned long long)(backtraces->longest_stop_ns / 1000));
        base->err =
            answer->as_profile ? pack_profile(answer, backtraces) : pack(answer, backtraces);
    }
    packed_answer_post(base);
}

void rpc_get_backtraces(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetBacktracesRequest *request = (const void *)message;
    struct engine_backtraces_spec spec = {
        .max_depth = request->max_depth, .max_threads = request->max_threads, .tid = request->tid};
    struct sonde_diag diag = {0};
    struct rpc_rendering rendering;
    sonde_err err = rpc_selector(request->target, &spec.target, &diag);
    if (!err)
        err = rpc_rendering(request->rendering, &rendering, &diag);
    struct answer *answer = err ? NULL : calloc(1, sizeof *answer);
    if (!err && !answer)
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        answer->as_text = request->as_text;
        answer->as_profile = request->rendering != NULL;
        answer->by_start_function = request->by_start_function;
        answer->readable_names = request->readable_names;
        answer->rendering = rendering;
        answer->rendering.options.title = NULL;
        packed_answer_begin(&answer->base, call, &spec.target);
        err = engine_backtraces(rpc_call_server(call)->engine, &spec, on_backtraces, answer, &diag);
        if (err)
            rpc_call_drop(call);
    }
    if (!err)
        return;
    free(answer);
    rpc_finish(call, err, &diag);
}
