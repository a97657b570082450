/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamCpu. The engine's windows arrive on the loop, a worker merges those that have piled up and
 * encodes the result, and the loop sends it part by part. Each stream has one job at a time, so the
 * dictionary and each window belong to one thread at any moment and need no lock.
 *
 * Slow clients: while a message is in flight, new windows are merged into one that waits. A stream
 * therefore holds at most the parts of one window, one merged window (bounded; what does not fit is
 * counted) and, if the worker is late, MAX_WAITING windows. Further windows are dropped and
 * counted. */
#include "service/rpc/base/text.h"
#include "service/rpc/captures/result.h"
#include "service/rpc/captures/window.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>

#define MAX_WAITING        16
#define MERGED_LIMIT_BYTES (16u << 20)

struct stream {
    struct rpc_call *call;
    struct engine_capture *engine_capture;
    uint32_t max_windows, windows_sent;
    struct rpc_result *waiting; /* oldest first */
    size_t waiting_count;
    struct window_dictionary dictionary;
    struct window_parts parts;
    size_t part_sent;
    struct rpc_job job;
    struct rpc_result *in_job; /* the windows of the running job */
    bool is_working, wants_encoding, has_last;
    const char *end_reason; /* of the running job */
    sonde_err job_err;
    uint64_t lost;
    struct loop_message end_message;
    bool has_ended;
    sonde_err end_err;
    struct sonde_diag end_diag;
};

/* The first merge copies the window into a profile with a bound of our own. */
static struct rpc_result *make_bounded(struct rpc_result *first) {
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES];
    size_t count = sonde_profile_type_count(first->profile);
    for (size_t i = 0; i < count; i++)
        types[i] = sonde_profile_type(first->profile, i);
    struct sonde_profile *profile = sonde_profile_create(types, count, MERGED_LIMIT_BYTES);
    struct rpc_result *bounded =
        profile ? rpc_result_create(first->owner, profile, &first->metadata) : NULL;
    if (!bounded)
        return first;
    bounded->metadata.samples = 0;
    bounded->metadata.dropped = 0;
    bounded->metadata.drop_count = 0;
    bounded->metadata.truncated = bounded->metadata.guest_cpu_ns = bounded->metadata.target_cpu_ns =
        0;
    rpc_result_merge(bounded, first);
    bounded->merged = 0;
    return bounded;
}

static void merge_and_encode(struct rpc_job *job) {
    struct stream *stream = container_of(job, struct stream, job);
    struct rpc_result *first = stream->in_job, *rest = first->next;
    first->next = NULL;
    if (rest && first->merged == 0)
        first = make_bounded(first);
    for (struct rpc_result *next; rest; rest = next) {
        next = rest->next;
        rpc_result_merge(first, rest);
    }
    stream->in_job = first;
    if (stream->wants_encoding)
        stream->job_err =
            window_encode(&stream->dictionary, first, stream->end_reason, &stream->parts);
}

static void stop_capture(struct stream *stream) {
    if (stream->engine_capture)
        engine_capture_cancel(stream->engine_capture);
}

static void put_back(struct stream *stream) {
    stream->in_job->next = stream->waiting;
    stream->waiting = stream->in_job;
    stream->waiting_count++;
}

static void send_next(struct rpc_call *call);

static void on_worked(struct rpc_job *job) {
    struct stream *stream = container_of(job, struct stream, job);
    stream->is_working = false;
    if (!stream->wants_encoding) {
        put_back(stream);
    } else {
        rpc_result_destroy(stream->in_job);
        stream->part_sent = 0;
        stream->windows_sent++;
        stream->has_last = stream->parts.is_last;
        if (stream->has_last)
            stop_capture(stream);
    }
    stream->in_job = NULL;
    if (stream->job_err)
        rpc_finish(stream->call, stream->job_err, NULL);
    send_next(stream->call);
    rpc_call_drop(stream->call);
}

static const char *end_reason(const struct stream *stream) {
    if (stream->max_windows && stream->windows_sent + 1 >= stream->max_windows)
        return "max_windows";
    for (struct rpc_result *window = stream->waiting; window; window = window->next)
        if (window->metadata.target_gone)
            return "target gone";
    return NULL;
}

static void start_job(struct stream *stream, bool wants_encoding) {
    stream->in_job = stream->waiting;
    stream->waiting = NULL;
    stream->waiting_count = 0;
    stream->wants_encoding = wants_encoding;
    stream->is_working = true;
    if (wants_encoding)
        rpc_metadata_add_drop(&stream->in_job->metadata, "stream_backlog", stream->lost);
    stream->lost = wants_encoding ? 0 : stream->lost;
    stream->job.call = stream->call;
    stream->job.run = merge_and_encode;
    stream->job.on_done = on_worked;
    rpc_call_take(stream->call);
    rpc_job_start(&stream->job);
}

static bool has_part(const struct stream *stream) {
    return stream->part_sent < stream->parts.count;
}

static void send_part(struct stream *stream) {
    grpc_slice part = stream->parts.items[stream->part_sent++];
    if (!has_part(stream))
        stream->part_sent = stream->parts.count = 0;
    rpc_send_slice(stream->call, part);
}

/* The target ended without a last window. */
static void send_end(struct stream *stream) {
    Sonde__V1__CpuWindow message = SONDE__V1__CPU_WINDOW__INIT;
    message.last = true;
    message.end_reason = (char *)"target gone";
    stream->has_last = true;
    rpc_send(stream->call, &message.base);
}

/* Nothing is in flight and nothing is encoded: start the next job, or end the stream. */
static void go_on(struct stream *stream) {
    if (stream->has_last) {
        rpc_finish(stream->call, SONDE_OK, NULL);
    } else if (stream->waiting) {
        stream->end_reason = end_reason(stream);
        start_job(stream, true);
    } else if (stream->has_ended && stream->end_err) {
        rpc_finish(stream->call, stream->end_err, &stream->end_diag);
    } else if (stream->has_ended) {
        send_end(stream);
    }
}

static void send_next(struct rpc_call *call) {
    struct stream *stream = rpc_call_state(call);
    if (rpc_call_finished(call) || stream->is_working)
        return;
    if (rpc_call_sending(call)) {
        if (stream->waiting_count > 1)
            start_job(stream, false);
    } else if (has_part(stream)) {
        send_part(stream);
    } else {
        go_on(stream);
    }
}

static void stream_has_window(struct loop_message *message) {
    struct rpc_result *window = container_of(message, struct rpc_result, message);
    struct stream *stream = window->owner;
    bool is_wanted = !rpc_call_finished(stream->call) && !stream->has_last;
    if (!is_wanted || stream->waiting_count >= MAX_WAITING) {
        stream->lost += is_wanted ? window->metadata.samples : 0;
        rpc_result_destroy(window);
        return;
    }
    struct rpc_result **last = &stream->waiting;
    while (*last)
        last = &(*last)->next;
    *last = window;
    stream->waiting_count++;
    send_next(stream->call);
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    struct stream *stream = context;
    struct rpc_result *window = rpc_result_create(stream, profile, metadata);
    if (!window)
        return; /* clients see the gap in `sequence` */
    window->message.run = stream_has_window;
    loop_post(rpc_call_server(stream->call)->loop, &window->message);
}

static void stream_ended(struct loop_message *message) {
    struct stream *stream = container_of(message, struct stream, end_message);
    stream->has_ended = true;
    if (stream->engine_capture)
        engine_capture_release(stream->engine_capture);
    stream->engine_capture = NULL;
    send_next(stream->call);
    rpc_call_drop(stream->call);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct stream *stream = context;
    stream->end_err = err;
    if (diag)
        stream->end_diag = *diag;
    stream->end_message.run = stream_ended;
    loop_post(rpc_call_server(stream->call)->loop, &stream->end_message);
}

static void on_gone(struct rpc_call *call) {
    stop_capture(rpc_call_state(call));
}

static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    stop_capture(rpc_call_state(call));
    rpc_finish(call, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
}

static void release(struct rpc_call *call) {
    struct stream *stream = rpc_call_state(call);
    rpc_call_note(call, " windows=%u", stream->windows_sent);
    for (struct rpc_result *next; stream->waiting; stream->waiting = next) {
        next = stream->waiting->next;
        rpc_result_destroy(stream->waiting);
    }
    while (has_part(stream))
        grpc_slice_unref(stream->parts.items[stream->part_sent++]);
    free(stream->parts.items);
    window_dictionary_finish(&stream->dictionary);
    free(stream);
}

static struct stream *stream_create(struct rpc_call *call, uint32_t max_windows) {
    static const struct rpc_call_events events = {send_next, on_gone, on_stop, release};
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->call = call;
    stream->max_windows = max_windows;
    window_dictionary_init(&stream->dictionary, WINDOW_DICTIONARY_BYTES);
    rpc_call_set(call, &events, stream);
    rpc_call_take(call); /* dropped in on_end */
    return stream;
}

void rpc_stream_cpu(struct rpc_call *call, const ProtobufCMessage *message) {
    static const struct engine_capture_events events = {.on_profile = on_profile, .on_end = on_end};
    const Sonde__V1__StreamCpuRequest *request = (const void *)message;
    struct engine_cpu_spec spec;
    struct stream *stream = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_stream_spec(request, rpc_call_owner(call), &spec, &diag);
    if (!err && !(stream = stream_create(call, request->max_windows)))
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        rpc_call_note(call, " target=%s%s pid=%d hz=%u", spec.target.all ? "@all:" : "",
                      rpc_text(rpc_call_arena(call), spec.target.name), (int)spec.target.pid,
                      spec.frequency_hz);
        err = engine_capture_cpu(rpc_call_server(call)->engine, &spec, &events, stream,
                                 &stream->engine_capture, &diag);
    }
    if (err) {
        rpc_finish(call, err, &diag);
        if (stream)
            rpc_call_drop(call);
    }
}
