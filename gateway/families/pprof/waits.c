/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's /debug/pprof/block and /debug/pprof/mutex: time that threads waited, for anything or for
 * locks only, as contentions and delay. With `seconds` it is measured during that time. Go's form
 * without `seconds` is a total since the start: the answer is what the history has recorded since
 * the process started. Without such a history it is an empty profile that says how to get one. */
#include "api/base/clock.h"
#include "api/profile/event.h"
#include "api/profile/select/contentions.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include "api/draw/draw.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAITS_HZ    99
#define DEADLINE_MS 10000 /* what scrapers wait for */

struct waits_reply {
    struct profile_reply profile;
    char name[PATH_MAX_NAME + 1]; /* of the attached process */
    int32_t pid;
    int64_t start_unix_ns;
    bool only_locks;
    size_t fitting; /* attached processes that the request may mean */
};

/* ---- Nothing ---- */

static sonde_err make_empty(struct sonde_profile **profile) {
    const struct sonde_profile_info info = {.period_type = sonde_contention_types[0],
                                            .period = 1,
                                            .default_type = 1,
                                            .time_unix_ns = clock_ns(CLOCK_REALTIME)};
    *profile = sonde_profile_create(sonde_contention_types, 2, 0);
    if (!*profile)
        return SONDE_OUT_OF_MEMORY;
    sonde_profile_set_info(*profile, &info);
    return sonde_profile_add_comment(
        *profile, "waits are not measured all the time: ask for a window with ?seconds=10, or "
                  "record them: sonded --history --history-off-cpu-ms 10");
}

static void answer_empty(struct relay *relay) {
    struct profile_reply *reply = (struct profile_reply *)relay;
    struct sonde_profile *profile = NULL;
    struct sonde_buf body = {0};
    struct sonde_diag diag = {0};
    sonde_err err = make_empty(&profile);
    if (!err) {
        struct sonde_draw_options options = sonde_draw_defaults(profile);
        options.gzip_level = reply->format.raw ? -1 : 0;
        err = sonde_draw(profile, (enum sonde_format)reply->format.id, &options, &body, &diag);
    }
    if (err)
        relay_refuse(relay, err, &diag);
    else
        profile_reply_answer(reply, sonde_buf_slice(&body));
    sonde_buf_finish(&body);
    sonde_profile_destroy(profile);
}

/* ---- From the history ---- */

static void refuse_query(struct profile_reply *reply, sonde_err err,
                         const struct sonde_diag *diag) {
    bool has_none =
        err == SONDE_NOT_AVAILABLE || err == SONDE_NOT_FOUND || err == SONDE_PERMISSION_DENIED;
    if (has_none)
        answer_empty(&reply->relay);
    else
        relay_refuse(&reply->relay, err, diag);
}

static void query_history(struct waits_reply *reply) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    char selector[32];
    snprintf(selector, sizeof selector, "pid = '%" PRId32 "'", reply->pid);
    selection.service = reply->name;
    selection.event = (char *)(uintptr_t)sonde_events[SONDE_OFF_CPU].name;
    selection.selector = selector;
    selection.from_unix_ns = reply->start_unix_ns;
    request.selection = &selection;
    request.rendering = &rendering;
    request.as_contentions = true;
    request.only_locks = reply->only_locks;
    reply->profile.refuse = refuse_query;
    profile_reply_call(&reply->profile, &client_query_profile, &request.base, DEADLINE_MS);
}

static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct waits_reply *reply = (struct waits_reply *)relay;
    const struct target_choice *choice = &relay->target;
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        if ((choice->name[0] && strcmp(choice->name, target->name) != 0) ||
            (choice->pid && choice->pid != target->pid))
            continue;
        snprintf(reply->name, sizeof reply->name, "%s", target->name);
        reply->pid = target->pid;
        reply->start_unix_ns = target->start_unix_ns;
        reply->fitting++;
    }
}

/* A process that is not attached is not recorded. */
static void on_targets_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct waits_reply *reply = (struct waits_reply *)relay;
    if (err)
        relay_refuse(relay, err, diag);
    else if (reply->fitting == 1)
        query_history(reply);
    else
        relay_check_target(relay, answer_empty);
}

static void find_target(struct relay *relay) {
    static const struct relay_events events = {on_targets, on_targets_ended, NULL};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    relay->events = &events;
    relay_call(relay, &client_list_targets, &request.base, DEADLINE_MS);
}

/* ---- During some seconds ---- */

static void capture(struct waits_reply *reply, const struct request_context *context,
                    uint64_t seconds) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&reply->profile.format);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.frequency_hz = WAITS_HZ;
    request.mode = SONDE__V1__CPU_MODE__OFF_CPU;
    request.as_contentions = true;
    request.only_locks = reply->only_locks;
    request.no_progress = true;
    profile_reply_start(&reply->profile, context, &client_capture_cpu, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
}

void handle_waits(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    uint64_t seconds = 0;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    sonde_err err = query_whole(&context->query, "seconds", 1, 3600, &seconds, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct waits_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->only_locks = setup->flags & PROFILE_LOCKS;
    if (seconds || context->head)
        capture(reply, context, seconds);
    else
        find_target(&reply->profile.relay);
}
