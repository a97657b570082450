/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved captures as profiles: /v1/captures/7, also with a format's extension, and the difference of
 * two, /v1/diff?base=6&new=7. HEAD only checks that the captures exist. `from` and `until` select a
 * part of the time, which /v1/captures/7/timeline shows. */
#include "api/draw/draw.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE_MS  60000
#define MAX_FUNCTION 1024
#define MAX_SECONDS  4000000u /* of a time in a capture; its milliseconds fit into 32 bits */

/* Without an extension the format is negotiated as on /debug/pprof/profile. */
static const struct profile_setup plain = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, PROFILE_NEGOTIATES,
                                           FORMATS_CPU, "attachment; filename=\"capture\""};

static const struct profile_setup of_two = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH,
                                            PROFILE_NEGOTIATES, FORMATS_DIFFERENCE,
                                            "attachment; filename=\"capture\""};

/* Of a HEAD request. */
struct check {
    struct relay relay;
    const char *media_type;
    uint64_t ids[2]; /* 0 = none */
};

/* ---- HEAD ---- */

static bool is_listed(const Sonde__V1__ListCapturesResponse *list, uint64_t id) {
    for (size_t i = 0; i < list->n_captures; i++)
        if (list->captures[i]->id == id)
            return true;
    return id == 0;
}

static void on_list(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListCapturesResponse *list = (const void *)message;
    struct check *check = (struct check *)relay;
    if (!is_listed(list, check->ids[0]) || !is_listed(list, check->ids[1])) {
        relay_refuse(relay, SONDE_NOT_FOUND, NULL);
        return;
    }
    struct http_answer answer = {.status = 200, .content_type = check->media_type, .no_gzip = true};
    http_answer(relay_take_request(relay), &answer, (struct sonde_slice){"", 0});
}

/* HEAD looks the captures up in the list; GET makes the call. */
static void start(const struct request_context *context, const struct profile_format *format,
                  uint64_t first, uint64_t second, const struct client_method *method,
                  const ProtobufCMessage *request) {
    static const struct relay_events events = {.on_message = on_list};
    if (!context->head) {
        profile_reply_call(profile_reply_create(context, sizeof(struct profile_reply), format),
                           method, request, DEADLINE_MS);
        return;
    }
    Sonde__V1__ListCapturesRequest all = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    struct check *check = relay_create(context, sizeof *check, &events);
    check->media_type = format->media_type;
    check->ids[0] = first;
    check->ids[1] = second;
    relay_call(&check->relay, &client_list_captures, &all.base, DEADLINE_MS);
}

/* ---- One capture ---- */

/* Reads "7" or "7.svg": the number, and the extension's format (NULL = no extension). */
static sonde_err read_name(struct sonde_slice name, uint64_t *id,
                           const struct sonde_format_info **format, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    size_t digits = 0;
    while (digits < name.len && isdigit((unsigned char)name.data[digits]))
        digits++;
    struct sonde_slice rest = {name.data + digits, name.len - digits};
    *format = format_of_extension(rest);
    *id = 0;
    if (digits == 0 || digits >= 19 || (rest.len > 0 && !*format))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "capture: \"%.190s\" is not a number, optionally followed by the "
                          "extension of a format, such as .svg or .pb.gz",
                          query_quote(name, quoted));
    for (size_t i = 0; i < digits; i++)
        *id = *id * 10 + (uint64_t)(name.data[i] - '0');
    return SONDE_OK;
}

/* What is in place of the route's {id}. */
static struct sonde_slice name_of(const struct request_context *context) {
    const char *pattern = context->route->path;
    size_t before = strcspn(pattern, "{"), after = strlen(strchr(pattern, '}') + 1);
    struct sonde_slice path = context->path.rest;
    return (struct sonde_slice){path.data + before, path.len - before - after};
}

/* Decimal seconds as milliseconds; 0 if the key is missing. */
static sonde_err read_time(const struct query *query, const char *key, uint32_t *ms,
                           struct sonde_diag *diag) {
    double seconds = 0;
    sonde_err err = query_decimal(query, key, 0, MAX_SECONDS, &seconds, diag);
    *ms = (uint32_t)(seconds * 1000 + 0.5);
    return err;
}

void handle_v1_capture(const struct request_context *asked) {
    struct request_context named = *asked;
    const struct request_context *context = &named;
    struct sonde_diag diag = {0};
    struct profile_format format;
    uint32_t from_ms = 0, until_ms = 0;
    uint64_t id;
    sonde_err err = read_name(name_of(context), &id, &named.extension, &diag);
    if (!err)
        err = read_time(&context->query, "from", &from_ms, &diag);
    if (!err)
        err = read_time(&context->query, "until", &until_ms, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    if (!profile_format_read(context, &plain, plain.format, &format))
        return;
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.id = id;
    request.from_ms = from_ms;
    request.until_ms = until_ms;
    request.rendering = &rendering;
    start(context, &format, id, 0, &client_get_capture, &request.base);
}

/* ---- Its timeline ---- */

static sonde_err read_function(const struct query *query, char function[MAX_FUNCTION + 1],
                               struct sonde_diag *diag) {
    struct sonde_slice name = {0};
    if (query_get(query, "function", &name) &&
        (name.len == 0 || name.len > MAX_FUNCTION || memchr(name.data, 0, name.len)))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "function: a name of 1 to %d bytes; * stands for any characters",
                          MAX_FUNCTION);
    if (name.len)
        memcpy(function, name.data, name.len);
    function[name.len] = 0;
    return SONDE_OK;
}

static sonde_err read_timeline(const struct request_context *context,
                               Sonde__V1__GetCaptureTimelineRequest *request,
                               char function[MAX_FUNCTION + 1], struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    uint64_t bin_ms = 0;
    const struct sonde_format_info *extension;
    sonde_err err = read_name(name_of(context), &request->id, &extension, diag);
    if (!err && extension)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "capture: \"%.190s\" is not a number",
                         query_quote(name_of(context), quoted));
    if (!err)
        err = read_time(&context->query, "from", &request->from_ms, diag);
    if (!err)
        err = read_time(&context->query, "until", &request->until_ms, diag);
    if (!err)
        err = query_whole(&context->query, "bin_ms", 20, MAX_SECONDS * 1000, &bin_ms, diag);
    if (!err)
        err = read_function(&context->query, function, diag);
    request->bin_ms = (uint32_t)bin_ms;
    request->function = function;
    return err;
}

void handle_v1_capture_timeline(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__GetCaptureTimelineRequest request = SONDE__V1__GET_CAPTURE_TIMELINE_REQUEST__INIT;
    struct sonde_diag diag = {0};
    char function[MAX_FUNCTION + 1];
    sonde_err err = read_timeline(context, &request, function, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        relay_call(relay_create(context, sizeof(struct relay), &events),
                   &client_get_capture_timeline, &request.base, DEADLINE_MS);
}

/* ---- The difference of two captures ---- */

static sonde_err read_ranges(const struct query *query, Sonde__V1__DiffCapturesRequest *request,
                             struct sonde_diag *diag) {
    sonde_err err = read_time(query, "from", &request->from_ms, diag);
    if (!err)
        err = read_time(query, "until", &request->until_ms, diag);
    if (!err)
        err = read_time(query, "base_from", &request->base_from_ms, diag);
    return err ? err : read_time(query, "base_until", &request->base_until_ms, diag);
}

static sonde_err read_diff(const struct query *query, Sonde__V1__DiffCapturesRequest *request,
                           struct sonde_diag *diag) {
    bool normalize = false, growth = false;
    sonde_err err = query_whole(query, "base", 1, INT64_MAX, &request->base_id, diag);
    if (!err)
        err = query_whole(query, "new", 1, INT64_MAX, &request->new_id, diag);
    if (!err && (!request->base_id || !request->new_id))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "base and new are required; /v1/captures lists the captures");
    if (!err)
        err = read_ranges(query, request, diag);
    if (!err)
        err = query_flag(query, "normalize", &normalize, diag);
    if (!err)
        err = query_flag(query, "growth", &growth, diag);
    request->normalize = normalize;
    request->growth_only = growth;
    return err;
}

void handle_v1_diff(const struct request_context *context) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct profile_format format;
    sonde_err err = read_diff(&context->query, &request, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    if (!profile_format_read(context, &of_two, of_two.format, &format))
        return;
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.rendering = &rendering;
    start(context, &format, request.base_id, request.new_id, &client_diff_captures, &request.base);
}
