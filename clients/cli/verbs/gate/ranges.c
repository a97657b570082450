/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that history has: parts of a range, each of which is one run of both selections. Minutes of
 * a service resemble each other less than its windows of 10 s. */
#include "clients/cli/verbs/gate/input.h"

#include "api/profile/pprof/pprof.h"

#include <string.h>

#define NS_PER_S          1000000000ll
#define MOST_PARTS        12
#define PART_S            60
#define MAX_PROFILE_BYTES (2048ull << 20)

/* An answer of the history. */
struct answer {
    struct sonde_buf bytes;
    uint64_t windows;
    double covered_s;
};

static bool on_event(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct answer *answer = context;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&answer->bytes, event->chunk.data, event->chunk.len);
    if (event->event_case != SONDE__V1__CAPTURE_EVENT__EVENT_RESULT || !event->result->completeness)
        return !answer->bytes.failed;
    answer->windows = event->result->completeness->windows_received;
    answer->covered_s = event->result->completeness->covered_s;
    return true;
}

static sonde_err fetch(struct service *service, const struct gate_ranges *ranges, int side,
                       const struct history_range *range, struct answer *answer,
                       struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    history_select(&selection, ranges->name, ranges->event, ranges->selectors[side], range);
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.selection = &selection;
    request.rendering = &rendering;
    sonde_err err = service_stream(service, &client_query_profile, &request.base,
                                   HISTORY_TIMEOUT_MS, on_event, answer, diag);
    if (!err && answer->bytes.failed)
        err = sonde_fail(diag, SONDE_TOO_LARGE, "the answer is too large");
    return history_explain(err, diag);
}

/* A part in which nothing was recorded is not a run. */
static sonde_err add_part(struct gate_input *input, struct service *service,
                          const struct gate_ranges *ranges, int side,
                          const struct history_range *range, struct sonde_diag *diag) {
    struct answer answer = {.bytes = {.limit = MAX_PROFILE_BYTES}};
    struct gate_run run = {0};
    char time[CAPTURE_TIME_BYTES];
    sonde_err err = fetch(service, ranges, side, range, &answer, diag);
    if (!err && answer.windows)
        err =
            sonde_pprof_read(sonde_buf_slice(&answer.bytes), MAX_PROFILE_BYTES, &run.profile, diag);
    sonde_buf_finish(&answer.bytes);
    if (err || !answer.windows)
        return err;
    run.seconds = answer.covered_s;
    snprintf(run.name, sizeof run.name, "%s from %s", side ? "new" : "base",
             capture_time_text(range->from_unix_ns, time));
    return gate_input_add(input, side, &run, diag);
}

static int64_t count_parts(const struct history_range *range) {
    int64_t parts = (range->until_unix_ns - range->from_unix_ns) / NS_PER_S / PART_S;
    return parts > MOST_PARTS ? MOST_PARTS : parts < 1 ? 1 : parts;
}

static sonde_err add_side(struct gate_input *input, struct service *service,
                          const struct gate_ranges *ranges, int side, struct sonde_diag *diag) {
    int64_t begin = ranges->range.from_unix_ns, parts = count_parts(&ranges->range);
    int64_t length = ranges->range.until_unix_ns - begin;
    sonde_err err = SONDE_OK;
    for (int64_t i = 0; i < parts && !err; i++) {
        const struct history_range part = {begin + length / parts * i,
                                           begin + length / parts * (i + 1)};
        err = add_part(input, service, ranges, side, &part, diag);
    }
    return err;
}

sonde_err gate_read_history(struct gate_input *input, const struct gate_ranges *ranges,
                            struct sonde_diag *diag) {
    struct service service;
    input->is_history = true;
    sonde_err err = service_open(&service, &ranges->service, diag);
    for (int side = 0; side < 2 && !err; side++)
        err = add_side(input, &service, ranges, side, diag);
    service_close(&service);
    return err;
}
