/* SPDX-License-Identifier: Apache-2.0
 *
 * IOx's /debug/pprof/allocs: the allocations during `seconds`.
 *
 * Parca and Grafana Alloy ask without `seconds` and expect an answer at once. If the heap is being
 * profiled, they get the total that the profiler has counted; if not, what was allocated since
 * their last request. Alloy subtracts the previous answer from each one itself, so it gets the
 * allocations since its first request. /debug/pprof/delta_heap always answers with what was
 * allocated since the last request. */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/alloc_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_SAMPLE_BYTES   (1u << 30)
#define STATUS_DEADLINE_MS 30000

struct allocs_reply {
    struct profile_reply profile;
    uint64_t sample_bytes;
    bool is_total;  /* the client wants the allocations since its first request */
    bool has_total; /* the target's heap profiler counts all allocations */
    char key[80];   /* identifies the client and its kind of request to the service */
};

/* ---- Without seconds ---- */

static bool begins(struct sonde_slice text, const char *prefix) {
    size_t len = strlen(prefix);
    return text.len >= len && memcmp(text.data, prefix, len) == 0;
}

/* FNV-1a; a separator ends each text. */
static uint64_t hash_text(uint64_t hash, struct sonde_slice text) {
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return (hash ^ 0xff) * 0x100000001b3u;
}

/* The client's address, a hash of what else tells scrapers apart, and what it wants, because one
 * client may ask both paths. The hash has the User-Agent, the token, and the name that a scraper
 * may choose, because two of a kind behind one address look alike otherwise. */
static void make_key(const struct request_context *context, struct allocs_reply *reply,
                     bool is_delta) {
    const char *wanted = is_delta ? " delta" : reply->is_total ? " total" : "";
    struct sonde_slice scraper = {0};
    char peer[48];
    (void)query_get(&context->query, "scraper", &scraper);
    uint64_t hash = hash_text(0xcbf29ce484222325u, context->headers.user_agent);
    hash = hash_text(hash, http_request_header(context->request, "authorization"));
    hash = hash_text(hash, scraper);
    http_request_peer(context->request, peer, sizeof peer);
    snprintf(reply->key, sizeof reply->key, "%.40s %08" PRIx32 "%s", peer,
             (uint32_t)(hash ^ hash >> 32), wanted);
}

static void poll_allocs(struct relay *relay) {
    struct allocs_reply *reply = (struct allocs_reply *)relay;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.rendering = &rendering;
    request.sample_bytes = reply->sample_bytes;
    request.no_progress = true;
    request.poll_key = reply->key;
    request.poll_total = reply->is_total;
    profile_reply_call(&reply->profile, &client_capture_allocs, &request.base, PROFILE_GRACE_MS);
}

static void send_total(struct relay *relay) {
    struct allocs_reply *reply = (struct allocs_reply *)relay;
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.rendering = &rendering;
    request.sample_type = (char *)"alloc_space";
    profile_reply_call(&reply->profile, &client_heap_snapshot, &request.base, PROFILE_GRACE_MS);
}

static void on_status(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    bool counts_all = state->backend == SONDE__V1__HEAP_STATE__BACKEND__INTERPOSED;
    ((struct allocs_reply *)relay)->has_total = state->active && (counts_all || state->accumulates);
}

static void on_status_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err && err != SONDE_NOT_AVAILABLE)
        relay_refuse(relay, err, diag);
    else if (((struct allocs_reply *)relay)->has_total)
        send_total(relay);
    else
        poll_allocs(relay);
}

static void send_total_or_poll(struct relay *relay) {
    static const struct relay_events events = {on_status, on_status_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    relay->events = &events;
    relay_call(relay, &client_heap_status, &request.base, STATUS_DEADLINE_MS);
}

static void answer_at_once(const struct request_context *context,
                           const struct profile_format *format, uint64_t sample_bytes) {
    const struct profile_setup *setup = context->route->setup;
    bool is_delta = setup->seconds == 0;
    struct allocs_reply *reply = profile_reply_create(context, sizeof *reply, format);
    reply->sample_bytes = sample_bytes;
    reply->is_total = !is_delta && begins(context->headers.user_agent, "Alloy/");
    make_key(context, reply, is_delta);
    if (context->head)
        profile_reply_check_target(&reply->profile);
    else if (is_delta)
        poll_allocs(&reply->profile.relay);
    else
        send_total_or_poll(&reply->profile.relay);
}

/* ---- With seconds ---- */

static void capture(const struct request_context *context, const struct profile_format *format,
                    uint64_t seconds, uint64_t sample_bytes) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(format);
    request.target = &selector;
    request.rendering = &rendering;
    request.sample_bytes = sample_bytes;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.no_progress = true;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), format),
                        context, &client_capture_allocs, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
}

/* Whether a scraper asks: the request has neither a duration nor a format. */
static bool is_scrape(const struct request_context *context) {
    struct sonde_slice value;
    return negotiate_reads_pprof(&context->headers) && !context->extension &&
           !query_get(&context->query, "seconds", &value) &&
           !query_get(&context->query, "output", &value);
}

void handle_allocs(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    uint64_t seconds = setup->seconds, sample_bytes = 0;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    sonde_err err = query_whole(&context->query, "seconds", 1, 3600, &seconds, &diag);
    if (!err)
        err = query_whole(&context->query, "interval", 1, MAX_SAMPLE_BYTES, &sample_bytes, &diag);
    if (!err)
        err = alloc_params_check("seconds", (double)seconds, "interval", sample_bytes == 1, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else if (!seconds || is_scrape(context))
        answer_at_once(context, &format, sample_bytes);
    else
        capture(context, &format, seconds, sample_bytes);
}
