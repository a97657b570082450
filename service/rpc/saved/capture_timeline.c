/* SPDX-License-Identifier: Apache-2.0
 *
 * GetCaptureTimeline. The loop opens the file; a worker reads it and adds up the bins. */
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/saved/saved_captures.h"

#include "api/profile/select/find_function.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BINS     500000u
#define MAX_FUNCTION 1024

struct summing {
    struct rpc_job job;
    int fd;
    uint32_t bin_ms;
    struct sonde_timeline_range range;
    const char *function; /* "" = all stacks; points into the request */
    int64_t *values;
    size_t count;
    sonde_err err;
    struct sonde_diag diag;
};

static sonde_err check_request(const Sonde__V1__GetCaptureTimelineRequest *request,
                               struct sonde_diag *diag) {
    if (request->bin_ms % SONDE_TIMELINE_BIN_MS != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "bin_ms: %u is not a multiple of %u",
                          request->bin_ms, SONDE_TIMELINE_BIN_MS);
    if (request->until_ms && request->from_ms >= request->until_ms)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "until must be after from");
    if (strlen(request->function) > MAX_FUNCTION)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "function: %zu bytes are too long; at most %d", strlen(request->function),
                          MAX_FUNCTION);
    return SONDE_OK;
}

static sonde_err count_bins(struct summing *summing, const struct sonde_profile *profile) {
    uint64_t until_ms = (uint64_t)(sonde_profile_info(profile)->duration_ns + 999999) / 1000000;
    if (summing->range.until_ms && summing->range.until_ms < until_ms)
        until_ms = summing->range.until_ms;
    if (summing->range.from_ms >= until_ms)
        return SONDE_OK;
    uint64_t count = (until_ms - summing->range.from_ms + summing->bin_ms - 1) / summing->bin_ms;
    if (count > MAX_BINS)
        return sonde_fail(&summing->diag, SONDE_INVALID_ARGUMENT,
                          "%llu bins are too many, the limit is %u; use a bin_ms of at least %llu",
                          (unsigned long long)count, MAX_BINS,
                          (unsigned long long)(count / MAX_BINS + 1) * summing->bin_ms);
    summing->count = count;
    return SONDE_OK;
}

/* Removes the entries of other stacks. */
static sonde_err keep_function(struct sonde_profile *profile, const char *function) {
    if (!function[0])
        return SONDE_OK;
    bool *is_on_stack = sonde_profile_find_function(profile, function);
    struct sonde_timeline *timeline = sonde_timeline_dup(sonde_profile_timeline(profile));
    size_t kept = 0;
    for (size_t i = 0; is_on_stack && timeline && i < timeline->count; i++)
        if (is_on_stack[timeline->entries[i].sample])
            timeline->entries[kept++] = timeline->entries[i];
    free(is_on_stack);
    if (!is_on_stack || !timeline) {
        sonde_timeline_destroy(timeline);
        return SONDE_OUT_OF_MEMORY;
    }
    timeline->count = kept;
    sonde_profile_set_timeline(profile, timeline);
    return SONDE_OK;
}

static void sum(struct rpc_job *job) {
    struct summing *summing = container_of(job, struct summing, job);
    struct sonde_profile *profile;
    summing->err = saved_capture_read_timeline(summing->fd, &profile, &summing->diag);
    if (!summing->err)
        summing->err = count_bins(summing, profile);
    if (!summing->err)
        summing->err = keep_function(profile, summing->function);
    if (!summing->err && !(summing->values = calloc(summing->count + 1, sizeof *summing->values)))
        summing->err = SONDE_OUT_OF_MEMORY;
    if (!summing->err)
        sonde_timeline_sum(profile, sonde_profile_info(profile)->default_type, summing->bin_ms,
                           summing->range, summing->values, summing->count);
    sonde_profile_destroy(profile);
}

static void on_summed(struct rpc_job *job) {
    struct summing *summing = container_of(job, struct summing, job);
    Sonde__V1__CaptureTimeline answer = SONDE__V1__CAPTURE_TIMELINE__INIT;
    answer.bin_ms = summing->bin_ms;
    answer.from_ms = summing->range.from_ms;
    answer.value = summing->values;
    answer.n_value = summing->count;
    if (summing->err)
        rpc_finish(job->call, summing->err, &summing->diag);
    else
        rpc_reply(job->call, &answer.base);
    rpc_call_drop(job->call);
}

static void release(struct rpc_call *call) {
    struct summing *summing = rpc_call_state(call);
    if (summing->fd >= 0)
        close(summing->fd);
    free(summing->values);
    free(summing);
}

void rpc_get_capture_timeline(struct rpc_call *call, const ProtobufCMessage *message) {
    static const struct rpc_call_events events = {NULL, NULL, NULL, release};
    const Sonde__V1__GetCaptureTimelineRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct summing *summing = calloc(1, sizeof *summing);
    sonde_err err = summing ? check_request(request, &diag) : SONDE_OUT_OF_MEMORY;
    if (summing) {
        summing->fd = -1;
        summing->job = (struct rpc_job){.call = call, .run = sum, .on_done = on_summed};
        summing->bin_ms = request->bin_ms ? request->bin_ms : SONDE_TIMELINE_BIN_MS;
        summing->range.from_ms = request->from_ms - request->from_ms % SONDE_TIMELINE_BIN_MS;
        summing->range.until_ms = request->until_ms;
        summing->function = request->function;
        rpc_call_set(call, &events, summing);
    }
    if (!err)
        err = saved_captures_open_file(rpc_call_server(call)->saved, request->id, &summing->fd,
                                       &diag);
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    rpc_call_take(call); /* dropped in on_summed */
    rpc_job_start(&summing->job);
}
