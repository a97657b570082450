/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/render: the pprof file in the body, in another format. The page exports its views with
 * it. */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <string.h>

#define DEADLINE_MS 60000
#define MAX_FILE    ((4u << 20) - 4096) /* the service takes no larger one */
#define MAX_TEXT    200

static const struct profile_setup render = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, PROFILE_GZIP_BODY,
                                            FORMATS_DRAWN, "attachment; filename=\"profile\""};

struct texts {
    char title[MAX_TEXT + 1], sample_type[MAX_TEXT + 1];
};

static sonde_err read_text(const struct query *query, const char *key, char text[MAX_TEXT + 1],
                           struct sonde_diag *diag) {
    struct sonde_slice value;
    text[0] = 0;
    if (!query_get(query, key, &value))
        return SONDE_OK;
    if (value.len > MAX_TEXT || memchr(value.data, 0, value.len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: must have at most %d bytes and no NUL",
                          key, MAX_TEXT);
    memcpy(text, value.data, value.len);
    text[value.len] = 0;
    return SONDE_OK;
}

static sonde_err read_body(const struct request_context *context,
                           Sonde__V1__RenderProfileRequest *request, struct sonde_diag *diag) {
    struct sonde_slice body = http_request_body(context->request);
    if (body.len == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the body is empty: send a pprof file, compressed with gzip or not");
    if (body.len > MAX_FILE)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the profile is larger than %u bytes: draw it with `sonde draw FILE`",
                          MAX_FILE);
    request->profile =
        (ProtobufCBinaryData){.len = body.len, .data = (uint8_t *)(uintptr_t)body.data};
    return SONDE_OK;
}

static sonde_err read_request(const struct request_context *context,
                              Sonde__V1__RenderProfileRequest *request, struct texts *texts,
                              struct sonde_diag *diag) {
    const struct query *query = &context->query;
    bool normalize = false, growth = false;
    sonde_err err = read_body(context, request, diag);
    if (!err)
        err = read_text(query, "title", texts->title, diag);
    if (!err)
        err = read_text(query, "sample_type", texts->sample_type, diag);
    if (!err)
        err = query_flag(query, "normalize", &normalize, diag);
    if (!err)
        err = query_flag(query, "growth", &growth, diag);
    request->sample_type = texts->sample_type;
    request->normalize = normalize;
    request->growth_only = growth;
    return err;
}

void handle_v1_render(const struct request_context *context) {
    Sonde__V1__RenderProfileRequest request = SONDE__V1__RENDER_PROFILE_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct profile_format format;
    struct texts texts;
    sonde_err err = read_request(context, &request, &texts, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    if (!profile_format_read(context, &render, render.format, &format))
        return;
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    rendering.title = texts.title;
    request.rendering = &rendering;
    profile_reply_call(profile_reply_create(context, sizeof(struct profile_reply), &format),
                       &client_render_profile, &request.base, DEADLINE_MS);
}
