/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryProfile and QueryDiff: sums of windows, drawn like captures. */
#include "api/base/clock.h"
#include "api/draw/diff.h"
#include "api/profile/diff/diff.h"
#include "api/profile/event.h"
#include "api/profile/select/contentions.h"
#include "api/text/time_text.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/history/time_parts.h"
#include "service/rpc/request/params.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- The first message ---- */

static uint32_t to_ms(int64_t ns) {
    int64_t ms = ns / 1000000;
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* What is selected, and how complete it is. */
struct part {
    struct history_selection selection;
    struct store_profile profile;
    Sonde__V1__Completeness completeness;
};

static sonde_err read_part(struct history_query *query, const Sonde__V1__Selection *sent,
                           const char *field, struct part *part, struct sonde_diag *diag) {
    sonde_err err = history_selection_read(query, sent, field, &part->selection, diag);
    if (!err)
        err = history_selection_profile(query, &part->selection, &part->profile, diag);
    if (!err)
        err = history_completeness(query, &part->selection, &part->profile.merge,
                                   &part->completeness, diag);
    part->completeness.unknown_stacks = part->profile.unknown_stacks;
    return err;
}

static void part_finish(struct part *part) {
    sonde_profile_destroy(part->profile.profile);
    history_selection_finish(&part->selection);
}

/* base may be NULL. */
static sonde_err add_start(struct history_query *query, const struct rpc_rendering *rendering,
                           struct part *part, struct part *base) {
    const struct store_merge *merge = &part->profile.merge;
    Sonde__V1__ResultStart start = SONDE__V1__RESULT_START__INIT;
    start.media_type = (char *)rendering->info->media_type;
    start.samples = merge->samples;
    start.dropped = merge->dropped;
    if (!sonde_event_is_state(part->selection.query.event))
        start.duration_ms = to_ms(merge->wall_ns);
    start.frequency_hz = merge->period_ns ? 1e9 / (double)merge->period_ns : 0;
    start.completeness = &part->completeness;
    start.base_completeness = base ? &base->completeness : NULL;
    return rpc_document_add_start(&query->document, &start);
}

/* Pictures and text show the time or the bytes, and not the number of samples: windows with
 * different periods are summed. */
static const char *shown_type(const struct sonde_profile *profile) {
    return sonde_profile_type(profile, sonde_profile_type_count(profile) - 1).type;
}

/* ---- QueryProfile ---- */

static sonde_err draw(struct history_query *query, const struct sonde_profile *profile,
                      const struct rpc_rendering *rendering, struct sonde_diag *diag) {
    const Sonde__V1__QueryProfileRequest *request = (const void *)query->request;
    struct sonde_draw_options options = rpc_draw_options(profile, &rendering->options);
    options.type = shown_type(profile);
    options.limit_kernel_frames = request->limit_kernel_frames;
    options.max_kernel_frames = request->max_kernel_frames;
    if (!(rendering->info->offered & sonde_draw_subject(profile)))
        return rpc_refuse_format(rendering->info, sonde_draw_subject(profile), diag);
    sonde_err err = store_stop_check(&query->stop, diag);
    return err ? err
               : sonde_draw(profile, rendering->format, &options, &query->document.bytes, diag);
}

static bool is_deepflow(enum sonde_format format) {
    return format == SONDE_FORMAT_DEEPFLOW_TREE || format == SONDE_FORMAT_DEEPFLOW_COLUMNAR;
}

/* DeepFlow's app_service; NULL if it is not known. */
static const char *default_service(const Sonde__V1__Selection *selection) {
    if (!selection)
        return NULL;
    if (selection->host_totals)
        return "Total";
    return selection->service[0] ? selection->service : NULL;
}

/* Replaces the profile. */
static sonde_err make_contentions(struct store_profile *profile, bool only_locks,
                                  struct sonde_diag *diag) {
    struct sonde_profile *contentions, *locks;
    if (profile->merge.windows == 0)
        return sonde_fail(diag, SONDE_NOT_FOUND, "no off-CPU time was recorded in this range");
    sonde_err err = sonde_profile_contentions(profile->profile, (int64_t)profile->merge.period_ns,
                                              clock_ns(CLOCK_REALTIME), &contentions);
    if (err == SONDE_INVALID_ARGUMENT)
        return sonde_fail(diag, err, "as_contentions: only for the event off-cpu");
    if (err)
        return err;
    sonde_profile_destroy(profile->profile);
    profile->profile = contentions;
    err = only_locks ? sonde_profile_only_locks(contentions, &locks) : SONDE_OK;
    if (err || !only_locks)
        return err;
    sonde_profile_destroy(contentions);
    profile->profile = locks;
    return SONDE_OK;
}

static sonde_err run_profile(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QueryProfileRequest *request = (const void *)query->request;
    struct part part = {.completeness = SONDE__V1__COMPLETENESS__INIT};
    struct rpc_rendering rendering;
    sonde_err err = rpc_rendering_any(request->rendering, &rendering, diag);
    rendering.options.limit_kernel_frames = request->limit_kernel_frames;
    rendering.options.max_kernel_frames = request->max_kernel_frames;
    if (!err && !rendering.options.title && is_deepflow(rendering.format))
        rendering.options.title = default_service(request->selection);
    if (!err)
        err = read_part(query, request->selection, "selection", &part, diag);
    if (!err && request->explain)
        part.completeness.statement = (char *)rpc_text(&query->arena, part.profile.merge.statement);
    if (!err && request->as_contentions)
        err = make_contentions(&part.profile, request->only_locks, diag);
    if (!err)
        err = draw(query, part.profile.profile, &rendering, diag);
    if (!err)
        err = add_start(query, &rendering, &part, NULL);
    part_finish(&part);
    return err;
}

void rpc_query_profile(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_profile);
}

/* ---- QueryDiff ---- */

static const char *selector_of(const Sonde__V1__Selection *selection) {
    return selection ? selection->selector : "";
}

/* Whether different processes are compared, such as two versions of a program. */
static bool has_two_selectors(const Sonde__V1__QueryDiffRequest *request) {
    return strcmp(selector_of(request->base_selection), selector_of(request->selection)) != 0;
}

/* What the base would be if it covered as much time as the selection; if different processes are
 * compared, as much time of processes. States are not scaled. */
static sonde_err scale_base(struct store_profile *base, const struct store_profile *now,
                            const char *event, bool by_process, double *scale) {
    struct sonde_profile *scaled;
    *scale = 1;
    int64_t before_ns = by_process ? base->merge.covered_ns : base->merge.wall_ns;
    int64_t now_ns = by_process ? now->merge.covered_ns : now->merge.wall_ns;
    if (sonde_event_is_state(event) || before_ns <= 0 || now_ns <= 0 || before_ns == now_ns)
        return SONDE_OK;
    *scale = (double)now_ns / (double)before_ns;
    sonde_err err = sonde_profile_scaled(base->profile, *scale, &scaled);
    if (err)
        return err;
    sonde_profile_destroy(base->profile);
    base->profile = scaled;
    return SONDE_OK;
}

/* The service, and its selector if the two differ. */
static const char *name_of(struct history_query *query, const Sonde__V1__Selection *selection) {
    const Sonde__V1__QueryDiffRequest *request = (const void *)query->request;
    const char *service = selection && selection->service[0] ? selection->service : "all services";
    char text[600];
    if (!has_two_selectors(request))
        return service;
    snprintf(text, sizeof text, "%.250s, %.250s", service,
             selector_of(selection)[0] ? selector_of(selection) : "all");
    const char *name = sonde_arena_dup(&query->arena, text, strlen(text));
    return name ? rpc_text(&query->arena, name) : service;
}

static sonde_err draw_parts(struct history_query *query, const struct part *base,
                            const struct part *now, double scale,
                            const struct sonde_time_parts parts[2], struct rpc_rendering *rendering,
                            struct sonde_diag *diag) {
    const Sonde__V1__QueryDiffRequest *request = (const void *)query->request;
    rendering->options.type = shown_type(now->profile.profile);
    const struct sonde_draw_diff diff = {.base = base->profile.profile,
                                         .now = now->profile.profile,
                                         .base_name = name_of(query, request->base_selection),
                                         .now_name = name_of(query, request->selection),
                                         .growth_only = request->growth_only,
                                         .base_scale = scale,
                                         .base_parts = &parts[0],
                                         .now_parts = &parts[1]};
    return sonde_draw_difference(&diff, rendering->format, &rendering->options,
                                 &query->document.bytes, diag);
}

static sonde_err draw_diff(struct history_query *query, struct part *base, struct part *now,
                           struct rpc_rendering *rendering, struct sonde_diag *diag) {
    const Sonde__V1__QueryDiffRequest *request = (const void *)query->request;
    const char *event = now->selection.query.event;
    struct history_measure measure = {.by_process = has_two_selectors(request)};
    struct sonde_time_parts parts[2] = {{.count = 0}, {.count = 0}};
    double scale;
    sonde_err err = scale_base(&base->profile, &now->profile, event, measure.by_process, &scale);
    for (int side = 0; side < 2 && !err && sonde_draw_judges(rendering->format); side++) {
        const struct part *part = side ? now : base;
        measure.scale = side ? 1 : scale;
        err = history_time_parts(query, &part->selection, &part->profile.merge, &measure,
                                 &parts[side], diag);
    }
    if (!err)
        err = draw_parts(query, base, now, scale, parts, rendering, diag);
    sonde_time_parts_finish(&parts[0]);
    sonde_time_parts_finish(&parts[1]);
    return err;
}

/* Whatever is compared with nothing looks like a regression. */
static sonde_err check_part(const struct part *part, const char *name, struct sonde_diag *diag) {
    char from[SONDE_TIME_BYTES], until[SONDE_TIME_BYTES];
    if (part->profile.merge.windows > 0)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_FOUND,
                      "%s: nothing was recorded from %s until %s, so there is nothing to compare",
                      name, sonde_time_utc(part->selection.query.from_unix_s * 1000000000, from),
                      sonde_time_utc(part->selection.query.until_unix_s * 1000000000, until));
}

static sonde_err run_diff(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QueryDiffRequest *request = (const void *)query->request;
    struct part base = {.completeness = SONDE__V1__COMPLETENESS__INIT}, now = base;
    struct rpc_rendering rendering;
    sonde_err err = rpc_rendering_any(request->rendering, &rendering, diag);
    if (!err)
        err = read_part(query, request->base_selection, "base_selection", &base, diag);
    if (!err)
        err = read_part(query, request->selection, "selection", &now, diag);
    if (!err)
        err = check_part(&base, "the base", diag);
    if (!err)
        err = check_part(&now, "the selection", diag);
    if (!err)
        err = draw_diff(query, &base, &now, &rendering, diag);
    if (!err)
        err = add_start(query, &rendering, &now, &base);
    part_finish(&base);
    part_finish(&now);
    return err;
}

void rpc_query_diff(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run_diff);
}
