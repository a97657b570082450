/* SPDX-License-Identifier: Apache-2.0
 *
 * ListCaptures, GetCapture, DiffCaptures. The loop opens the files, so they stay readable if they
 * are removed in the meantime. A worker reads, compares and renders them. */
#include "service/rpc/answer/document.h"
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
    struct rpc_document document;
    struct rpc_rendering rendering;
    int fd, base_fd; /* base_fd -1 = no comparison */
    struct sonde_timeline_range range, base_range;
    bool growth_only, normalise;
    bool with_timeline;             /* after a profile of all of the time */
    char name[160], base_name[160]; /* for differences */
    Sonde__V1__Capture *metadata;
    struct sonde_time_parts parts; /* of the new capture, likewise */
    uint64_t samples;              /* of the range, like the next */
    uint32_t duration_ms;
};

static sonde_err add_timeline(struct viewing *viewing, const struct sonde_profile *profile) {
    struct sonde_buf *bytes = &viewing->document.bytes;
    const struct sonde_timeline *timeline = sonde_profile_timeline(profile);
    size_t len = bytes->len;
    sonde_err err = timeline ? sonde_timeline_write(timeline, bytes) : SONDE_OK;
    viewing->metadata->timeline_bytes = bytes->len - len;
    return err;
}

static sonde_err draw_one(struct viewing *viewing, const struct sonde_profile *profile) {
    const struct sonde_format_info *info = viewing->rendering.info;
    struct sonde_draw_options options = rpc_draw_options(profile, &viewing->rendering.options);
    if (!(info->offered & sonde_draw_subject(profile)))
        return rpc_refuse_format(info, sonde_draw_subject(profile), &viewing->document.diag);
    sonde_err err = sonde_draw(profile, info->format, &options, &viewing->document.bytes,
                               &viewing->document.diag);
    return err || !viewing->with_timeline ? err : add_timeline(viewing, profile);
}

/* A capture without time bins has no parts. */
static sonde_err read_parts(int fd, struct sonde_timeline_range range, enum sonde_format format,
                            struct sonde_profile **profile, struct sonde_time_parts *parts,
                            struct sonde_diag *diag) {
    struct sonde_profile *whole;
    *parts = (struct sonde_time_parts){.count = 0};
    if (!sonde_draw_judges(format) || saved_capture_read_timeline(fd, &whole, NULL)) {
        if (lseek(fd, 0, SEEK_SET) < 0)
            return sonde_fail_os(diag, errno, "the capture cannot be read");
        return saved_capture_read_range(fd, range, profile, diag);
    }
    sonde_err err = sonde_time_parts_cut(whole, range, parts, diag);
    if (err || (!range.from_ms && !range.until_ms)) {
        *profile = whole;
        return err;
    }
    err = sonde_timeline_cut(whole, range, profile, diag);
    sonde_profile_destroy(whole);
    return err;
}

static sonde_err draw_two(struct viewing *viewing, const struct sonde_profile *profile) {
    struct sonde_profile *base = NULL;
    struct sonde_time_parts base_parts;
    struct sonde_diag *diag = &viewing->document.diag;
    const struct sonde_draw_options *options = &viewing->rendering.options;
    sonde_err err = read_parts(viewing->base_fd, viewing->base_range, viewing->rendering.format,
                               &base, &base_parts, diag);
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = profile,
                                         .base_name = viewing->base_name,
                                         .now_name = viewing->name,
                                         .growth_only = viewing->growth_only,
                                         .normalise = viewing->normalise,
                                         .base_parts = &base_parts,
                                         .now_parts = &viewing->parts};
    if (!err)
        err = sonde_draw_difference(&diff, viewing->rendering.format, options,
                                    &viewing->document.bytes, diag);
    sonde_time_parts_finish(&base_parts);
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

/* Firefox's format has the times of the samples, if the capture has them, and who compares captures
 * asks for them. */
static sonde_err read_capture(struct viewing *viewing, struct sonde_profile **profile) {
    bool is_whole = !viewing->range.from_ms && !viewing->range.until_ms;
    bool is_timed =
        viewing->with_timeline || (is_whole && viewing->rendering.format == SONDE_FORMAT_FIREFOX);
    if (viewing->base_fd >= 0)
        return read_parts(viewing->fd, viewing->range, viewing->rendering.format, profile,
                          &viewing->parts, &viewing->document.diag);
    if (is_timed && viewing->metadata->timeline_bytes &&
        saved_capture_read_timeline(viewing->fd, profile, NULL) == SONDE_OK)
        return SONDE_OK;
    if (is_timed && lseek(viewing->fd, 0, SEEK_SET) < 0) /* the bins may be too many to be kept */
        return sonde_fail_os(&viewing->document.diag, errno, "the capture cannot be read");
    return saved_capture_read_range(viewing->fd, viewing->range, profile, &viewing->document.diag);
}

static void draw(struct rpc_document *document) {
    struct viewing *viewing = container_of(document, struct viewing, document);
    struct sonde_profile *profile = NULL;
    if (viewing->metadata->target[0] == '@')
        rpc_rendering_of_many(&viewing->rendering);
    document->err = read_capture(viewing, &profile);
    if (!document->err)
        count_range(viewing, profile);
    if (!document->err)
        document->err =
            viewing->base_fd >= 0 ? draw_two(viewing, profile) : draw_one(viewing, profile);
    sonde_time_parts_finish(&viewing->parts);
    sonde_profile_destroy(profile);
}

static void describe(struct rpc_document *document, Sonde__V1__ResultStart *start) {
    const struct viewing *viewing = container_of(document, struct viewing, document);
    start->media_type = (char *)viewing->rendering.info->media_type;
    start->samples = viewing->samples;
    start->dropped = viewing->metadata->dropped;
    start->duration_ms = viewing->duration_ms;
    start->capture_id = viewing->metadata->id;
    start->capture = viewing->metadata;
    rpc_call_note(document->call, " capture=%llu", (unsigned long long)viewing->metadata->id);
}

static void release(struct rpc_call *call) {
    struct viewing *viewing = rpc_call_state(call);
    if (viewing->fd >= 0)
        close(viewing->fd);
    if (viewing->base_fd >= 0)
        close(viewing->base_fd);
    rpc_document_finish(&viewing->document);
    free(viewing);
}

static struct viewing *create(struct rpc_call *call) {
    static const struct rpc_call_events events = {rpc_document_on_sent, NULL, NULL, release};
    static const struct rpc_document_events document_events = {.draw = draw, .describe = describe};
    struct viewing *viewing = calloc(1, sizeof *viewing);
    if (!viewing)
        return NULL;
    rpc_document_init(&viewing->document, call, &document_events);
    viewing->fd = viewing->base_fd = -1;
    rpc_call_set(call, &events, viewing);
    return viewing;
}

/* The sample type points into the request. */
static sonde_err read_rendering(struct viewing *viewing, const Sonde__V1__Rendering *rendering,
                                const char *sample_type, struct sonde_diag *diag) {
    if (!viewing)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = rpc_rendering_any(rendering, &viewing->rendering, diag);
    viewing->rendering.options.type = *sample_type ? sample_type : NULL;
    return err;
}

static sonde_err open_capture(struct viewing *viewing, uint64_t id, struct sonde_diag *diag) {
    struct saved_captures *saved = rpc_call_server(viewing->document.call)->saved;
    sonde_err err = saved_captures_open_file(saved, id, &viewing->fd, diag);
    if (err)
        return err;
    viewing->metadata = capture_metadata_dup(rpc_call_arena(viewing->document.call),
                                             saved_captures_find(saved, id));
    return viewing->metadata ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static void start(struct viewing *viewing, struct rpc_call *call, sonde_err err,
                  const struct sonde_diag *diag) {
    if (err)
        rpc_finish(call, err, diag);
    else
        rpc_document_start(&viewing->document);
}

void rpc_get_capture(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetCaptureRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct viewing *viewing = create(call);
    sonde_err err = read_rendering(viewing, request->rendering, request->sample_type, &diag);
    if (!err)
        err = open_capture(viewing, request->id, &diag);
    if (!err)
        viewing->range = (struct sonde_timeline_range){request->from_ms, request->until_ms};
    if (!err)
        viewing->with_timeline = request->with_timeline && !request->from_ms &&
                                 !request->until_ms &&
                                 viewing->rendering.format == SONDE_FORMAT_PPROF &&
                                 viewing->rendering.options.gzip_level >= 0;
    start(viewing, call, err, &diag);
}

/* "capture 6 of redis-server, from 1 s to 2.5 s" */
static void name_capture(struct viewing *viewing, uint64_t id, struct sonde_timeline_range range,
                         char name[160]) {
    struct saved_captures *saved = rpc_call_server(viewing->document.call)->saved;
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
    struct viewing *viewing = create(call);
    sonde_err err = read_rendering(viewing, request->rendering, request->sample_type, &diag);
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
