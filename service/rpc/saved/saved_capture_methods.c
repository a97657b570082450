/* SPDX-License-Identifier: Apache-2.0
 *
 * ListCaptures, GetCapture, DiffCaptures. The loop opens the files, so they stay readable if they
 * are removed in the meantime. A worker reads, compares and renders them. */
#include "service/rpc/answer/chunk.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"
#include "service/rpc/saved/save_capture.h"

#include "api/draw/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The list ---- */

static bool fits(const Sonde__V1__Capture *capture, const struct engine_selector *selector) {
    return (!*selector->name || strcmp(capture->target, selector->name) == 0) &&
           (!selector->pid || capture->pid == selector->pid) &&
           (!*selector->uuid || strcmp(capture->uuid, selector->uuid) == 0);
}

/* A capture of several processes has a name of its own: "@all", "@all:redis", "@all:123". */
static sonde_err read_filter(const Sonde__V1__TargetSelector *target, char name[64],
                             struct engine_selector *selector, struct sonde_diag *diag) {
    sonde_err err = rpc_selector_of_many(target, NULL, selector, diag);
    if (err || !selector->all)
        return err;
    if (selector->pid)
        snprintf(name, 64, "@all:%d", (int)selector->pid);
    else
        snprintf(name, 64, *selector->name ? "@all:%.58s" : "@all", selector->name);
    selector->name = name;
    selector->pid = 0;
    return SONDE_OK;
}

void rpc_list_captures(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListCapturesRequest *request = (const void *)message;
    Sonde__V1__ListCapturesResponse response = SONDE__V1__LIST_CAPTURES_RESPONSE__INIT;
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    char name[64];
    size_t count;
    Sonde__V1__Capture *const *saved = saved_captures_list(rpc_call_server(call)->saved, &count);
    sonde_err err = read_filter(request->target, name, &selector, &diag);
    response.captures = sonde_arena_alloc(rpc_call_arena(call), (count + 1) * sizeof *saved);
    if (!err && !response.captures)
        err = SONDE_OUT_OF_MEMORY;
    for (size_t i = count; i-- > 0 && !err;)
        if (fits(saved[i], &selector))
            response.captures[response.n_captures++] = saved[i];
    if (err)
        rpc_finish(call, err, &diag);
    else
        rpc_reply(call, &response.base);
}

/* ---- One, or the difference of two ---- */

struct viewing {
    struct rpc_call *call;
    struct rpc_rendering rendering;
    const char *sample_type; /* NULL = the profile's default; points into the request */
    int fd, base_fd;         /* base_fd -1 = no comparison */
    struct sonde_timeline_range range, base_range;
    bool growth_only, normalise;
    char name[160], base_name[160]; /* for differences */
    Sonde__V1__Capture *metadata;
    uint64_t samples; /* of the range, like the next */
    uint32_t duration_ms;
    struct rpc_job job;
    struct sonde_buf drawn; /* written by the worker, then read by the loop */
    struct rpc_chunks chunks;
    sonde_err err;
    struct sonde_diag diag;
    bool is_drawn, start_was_sent;
};

static void send_start(struct viewing *viewing) {
    Sonde__V1__ResultStart start = SONDE__V1__RESULT_START__INIT;
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    start.media_type = (char *)viewing->rendering.info->media_type;
    start.size_bytes = rpc_chunks_size(&viewing->chunks);
    start.samples = viewing->samples;
    start.dropped = viewing->metadata->dropped;
    start.duration_ms = viewing->duration_ms;
    start.capture_id = viewing->metadata->id;
    start.capture = viewing->metadata;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_RESULT;
    event.result = &start;
    viewing->start_was_sent = true;
    rpc_call_note(viewing->call, " capture=%llu bytes=%zu",
                  (unsigned long long)viewing->metadata->id, rpc_chunks_size(&viewing->chunks));
    rpc_send(viewing->call, &event.base);
}

static void send_next(struct rpc_call *call) {
    struct viewing *viewing = rpc_call_state(call);
    if (rpc_call_sending(call) || rpc_call_finished(call) || !viewing->is_drawn)
        return;
    if (viewing->err)
        rpc_finish(call, viewing->err, &viewing->diag);
    else if (!viewing->start_was_sent)
        send_start(viewing);
    else if (rpc_chunks_has_next(&viewing->chunks))
        rpc_chunks_send(&viewing->chunks, call);
    else
        rpc_finish(call, SONDE_OK, NULL);
}

static sonde_err draw_one(struct viewing *viewing, const struct sonde_profile *profile) {
    const struct sonde_format_info *info = viewing->rendering.info;
    const struct sonde_draw_options *wanted = &viewing->rendering.options;
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    if (!(info->offered & sonde_draw_subject(profile)))
        return rpc_refuse_format(info, sonde_draw_subject(profile), &viewing->diag);
    if (viewing->sample_type)
        options.type = viewing->sample_type;
    if (wanted->title)
        options.title = wanted->title;
    options.split_threads = wanted->split_threads;
    options.gzip_level = wanted->gzip_level;
    return sonde_draw(profile, info->format, &options, &viewing->drawn, &viewing->diag);
}

static sonde_err draw_two(struct viewing *viewing, const struct sonde_profile *profile) {
    struct sonde_draw_options options = viewing->rendering.options;
    struct sonde_profile *base;
    options.type = viewing->sample_type;
    sonde_err err =
        saved_capture_read_range(viewing->base_fd, viewing->base_range, &base, &viewing->diag);
    if (err)
        return err;
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = profile,
                                         .base_name = viewing->base_name,
                                         .now_name = viewing->name,
                                         .growth_only = viewing->growth_only,
                                         .normalise = viewing->normalise};
    err = sonde_draw_difference(&diff, viewing->rendering.format, &options, &viewing->drawn,
                                &viewing->diag);
    sonde_profile_destroy(base);
    return err;
}

/* What ResultStart says of the part that is sent. */
static void count_range(struct viewing *viewing, const struct sonde_profile *profile) {
    viewing->samples = viewing->metadata->samples;
    viewing->duration_ms = viewing->metadata->duration_ms;
    if (!viewing->range.from_ms && !viewing->range.until_ms)
        return;
    viewing->samples = (uint64_t)sonde_profile_total(profile, 0);
    viewing->duration_ms = (uint32_t)(sonde_profile_info(profile)->duration_ns / 1000000);
}

/* Firefox's format has the times of the samples, if the capture has them. */
static sonde_err read_capture(struct viewing *viewing, struct sonde_profile **profile) {
    bool is_whole = !viewing->range.from_ms && !viewing->range.until_ms;
    bool is_timed =
        is_whole && viewing->base_fd < 0 && viewing->rendering.format == SONDE_FORMAT_FIREFOX;
    if (is_timed && viewing->metadata->timeline_bytes &&
        saved_capture_read_timeline(viewing->fd, profile, NULL) == SONDE_OK)
        return SONDE_OK;
    if (is_timed && lseek(viewing->fd, 0, SEEK_SET) < 0) /* the bins may be too many to be kept */
        return sonde_fail_os(&viewing->diag, errno, "the capture cannot be read");
    return saved_capture_read_range(viewing->fd, viewing->range, profile, &viewing->diag);
}

static void draw(struct rpc_job *job) {
    struct viewing *viewing = container_of(job, struct viewing, job);
    struct sonde_profile *profile;
    viewing->drawn.limit = RPC_MAX_RESULT_BYTES;
    if (viewing->metadata->target[0] == '@')
        rpc_rendering_of_many(&viewing->rendering);
    viewing->err = read_capture(viewing, &profile);
    if (!viewing->err)
        count_range(viewing, profile);
    if (!viewing->err)
        viewing->err =
            viewing->base_fd >= 0 ? draw_two(viewing, profile) : draw_one(viewing, profile);
    sonde_profile_destroy(profile);
}

static void on_drawn(struct rpc_job *job) {
    struct viewing *viewing = container_of(job, struct viewing, job);
    viewing->is_drawn = true;
    rpc_chunks_take(&viewing->chunks, &viewing->drawn);
    send_next(viewing->call);
    rpc_call_drop(viewing->call);
}

static void release(struct rpc_call *call) {
    struct viewing *viewing = rpc_call_state(call);
    if (viewing->fd >= 0)
        close(viewing->fd);
    if (viewing->base_fd >= 0)
        close(viewing->base_fd);
    sonde_buf_finish(&viewing->drawn);
    rpc_chunks_finish(&viewing->chunks);
    free(viewing);
}

static struct viewing *create(struct rpc_call *call, const char *sample_type) {
    static const struct rpc_call_events events = {send_next, NULL, NULL, release};
    struct viewing *viewing = calloc(1, sizeof *viewing);
    if (!viewing)
        return NULL;
    viewing->call = call;
    viewing->fd = viewing->base_fd = -1;
    viewing->sample_type = *sample_type ? sample_type : NULL;
    viewing->job.call = call;
    viewing->job.run = draw;
    viewing->job.on_done = on_drawn;
    rpc_call_set(call, &events, viewing);
    return viewing;
}

static sonde_err open_capture(struct viewing *viewing, uint64_t id, struct sonde_diag *diag) {
    struct saved_captures *saved = rpc_call_server(viewing->call)->saved;
    sonde_err err = saved_captures_open_file(saved, id, &viewing->fd, diag);
    if (err)
        return err;
    viewing->metadata =
        capture_metadata_dup(rpc_call_arena(viewing->call), saved_captures_find(saved, id));
    return viewing->metadata ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static void start(struct viewing *viewing, struct rpc_call *call, sonde_err err,
                  const struct sonde_diag *diag) {
    if (err) {
        rpc_finish(call, err, diag);
        return;
    }
    rpc_call_take(call); /* dropped in on_drawn */
    rpc_job_start(&viewing->job);
}

void rpc_get_capture(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetCaptureRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct viewing *viewing = create(call, request->sample_type);
    sonde_err err = viewing ? rpc_rendering_any(request->rendering, &viewing->rendering, &diag)
                            : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = open_capture(viewing, request->id, &diag);
    if (!err)
        viewing->range = (struct sonde_timeline_range){request->from_ms, request->until_ms};
    start(viewing, call, err, &diag);
}

/* "capture 6 of redis-server, from 1 s to 2.5 s" */
static void name_capture(struct viewing *viewing, uint64_t id, struct sonde_timeline_range range,
                         char name[160]) {
    struct saved_captures *saved = rpc_call_server(viewing->call)->saved;
    const Sonde__V1__Capture *capture = saved_captures_find(saved, id);
    int len = snprintf(name, 160, "capture %llu of %.64s", (unsigned long long)id,
                       capture ? capture->target : "?");
    if (range.from_ms)
        len += snprintf(name + len, 160 - (size_t)len, ", from %.3g s", range.from_ms / 1e3);
    if (range.until_ms)
        snprintf(name + len, 160 - (size_t)len, ", to %.3g s", range.until_ms / 1e3);
}

void rpc_diff_captures(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__DiffCapturesRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct viewing *viewing = create(call, request->sample_type);
    sonde_err err = viewing ? rpc_rendering_any(request->rendering, &viewing->rendering, &diag)
                            : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = open_capture(viewing, request->new_id, &diag);
    if (!err)
        err = saved_captures_open_file(rpc_call_server(call)->saved, request->base_id,
                                       &viewing->base_fd, &diag);
    if (!err) {
        viewing->range = (struct sonde_timeline_range){request->from_ms, request->until_ms};
        viewing->base_range =
            (struct sonde_timeline_range){request->base_from_ms, request->base_until_ms};
        name_capture(viewing, request->new_id, viewing->range, viewing->name);
        name_capture(viewing, request->base_id, viewing->base_range, viewing->base_name);
        viewing->growth_only = request->growth_only;
        viewing->normalise = request->normalize;
    }
    start(viewing, call, err, &diag);
}
