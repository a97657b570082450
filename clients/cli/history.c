/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/history.h"

#include "api/base/clock.h"
#include "api/text/time_text.h"
#include "clients/cli/formats.h"

#include <string.h>
#include <time.h>

#define NS_PER_S      1000000000ll
#define DEFAULT_AGE_S 3600

int64_t history_now_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

static sonde_err read_time(const char *option, const char *text, int64_t now_ns, int64_t *unix_ns,
                           struct sonde_diag *diag) {
    struct sonde_diag why = {0};
    sonde_err err = sonde_time_read(sonde_slice_of(text), now_ns, unix_ns, &why);
    return err ? sonde_fail(diag, err, "--%s: %.200s", option, sonde_diag_text(&why, err)) : err;
}

sonde_err history_read_range(const char *from_option, const char *from, const char *until_option,
                             const char *until, int64_t now_unix_ns, struct history_range *range,
                             struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    range->until_unix_ns = now_unix_ns;
    if (until)
        err = read_time(until_option, until, now_unix_ns, &range->until_unix_ns, diag);
    range->from_unix_ns = range->until_unix_ns - DEFAULT_AGE_S * NS_PER_S;
    if (!err && from)
        err = read_time(from_option, from, now_unix_ns, &range->from_unix_ns, diag);
    if (!err && range->from_unix_ns >= range->until_unix_ns)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--%s must be before --%s", from_option,
                         until_option);
    return err;
}

void history_select(Sonde__V1__Selection *selection, const char *service, const char *event,
                    const char *selector, const struct history_range *range) {
    selection->service = (char *)service;
    if (event)
        selection->event = (char *)event;
    if (selector)
        selection->selector = (char *)selector;
    selection->from_unix_ns = range->from_unix_ns;
    selection->until_unix_ns = range->until_unix_ns;
}

const struct sonde_format_info *history_choose_format(const char *name, const char *path,
                                                      unsigned subjects) {
    if (!name && !path)
        return sonde_format_info(SONDE_FORMAT_TEXT_TOP);
    return format_choose(name, path ? path : "-", subjects);
}

sonde_err history_explain(sonde_err err, struct sonde_diag *diag) {
    if (err != SONDE_UNIMPLEMENTED)
        return err;
    return sonde_fail(diag, SONDE_UNIMPLEMENTED,
                      "the service records no history; start sonded or `sonde run` with --history");
}

/* What history has instead, or that it is empty. */
static void describe_history(struct service *service, char *text, size_t size) {
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    char first[CAPTURE_TIME_BYTES], last[CAPTURE_TIME_BYTES];
    ProtobufCMessage *answer = NULL;
    if (service_call(service, &client_get_history_info, &request.base, &answer, NULL))
        return;
    const Sonde__V1__HistoryInfo *info = (const void *)answer;
    if (info->last_unix_ns)
        snprintf(text, size, "history has %s until %s; run `sonde history --list`",
                 capture_time_text(info->first_unix_ns, first),
                 capture_time_text(info->last_unix_ns, last));
    else
        snprintf(text, size, "history is empty");
    protobuf_c_message_free_unpacked(answer, NULL);
}

sonde_err history_refuse_empty(struct service *service, const struct history_range *range,
                               const struct capture_completeness *found, struct sonde_diag *diag) {
    char from[CAPTURE_TIME_BYTES], until[CAPTURE_TIME_BYTES], has[160] = "";
    if (found && found->silence_count)
        capture_print_completeness("", found);
    describe_history(service, has, sizeof has);
    return sonde_fail(diag, SONDE_NOT_FOUND,
                      "nothing that matches was recorded from %s until %s (a window of 10 s counts "
                      "where it begins); %s",
                      capture_time_text(range->from_unix_ns, from),
                      capture_time_text(range->until_unix_ns, until), has);
}

sonde_err history_receive(struct service *service, const struct client_method *method,
                          const ProtobufCMessage *request, const struct history_range *range,
                          struct output *output, struct capture_result *result,
                          struct sonde_diag *diag) {
    const struct capture_completeness *found = &result->completeness;
    sonde_err err =
        capture_receive(service, method, request, HISTORY_TIMEOUT_MS, output, result, diag);
    if (!err && found->is_known && found->windows_received == 0)
        err = history_refuse_empty(service, range, found, diag);
    return history_explain(err, diag);
}

sonde_err history_fetch(struct service *service, const struct client_method *method,
                        const ProtobufCMessage *request, const struct history_range *range,
                        const char *path, struct sonde_diag *diag) {
    struct output output;
    struct capture_result result = {0};
    sonde_err err = output_open(&output, path, diag);
    if (!err)
        err = history_receive(service, method, request, range, &output, &result, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    if (!err) {
        capture_print_completeness("base: ", &result.base_completeness);
        capture_print_completeness("", &result.completeness);
    }
    return err;
}
