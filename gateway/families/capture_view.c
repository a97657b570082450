/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept, shown: /v1/captures/7, with or without the extension of a form, and
 * /v1/diff?base=6&new=7. HEAD asks only whether the captures are there. */
#include "api/draw/draw.h"
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS 60000

/* As /debug/pprof/profile; an extension is as good as a word of `output=`. */
static const struct profile_setup plain = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, PROFILE_NEGOTIATES,
                                           FORMATS_CPU, "attachment; filename=\"capture\""};
static const struct profile_setup extended = {0, 0, PROFILE_GZIP_BODY, FORMATS_CPU, "attachment"};

struct view {
    struct relay relay;
    const char *media_type;
    uint64_t ids[2];
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
    struct view *view = (struct view *)relay;
    if (!is_listed(list, view->ids[0]) || !is_listed(list, view->ids[1])) {
        relay_refuse(relay, SONDE_NOT_FOUND, NULL);
        return;
    }
    struct http_answer answer = {.status = 200, .content_type = view->media_type, .no_gzip = true};
    http_answer(relay_take_request(relay), &answer, (struct sonde_slice){"", 0});
}

/* For HEAD the captures are looked for, otherwise the call is made. */
static void start(struct visit *visit, const struct capture_form *form, uint64_t first,
                  uint64_t second, const struct client_method *method,
                  const ProtobufCMessage *request) {
    static const struct relay_events events = {.on_message = on_list};
    if (!visit->head) {
        capture_call(capture_create(visit, form), method, request, DEADLINE_MS);
        return;
    }
    Sonde__V1__ListCapturesRequest all = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    struct view *view = relay_create(visit, sizeof *view, &events);
    view->media_type = form->media_type;
    view->ids[0] = first;
    view->ids[1] = second;
    relay_call(&view->relay, &client_list_captures, &all.base, DEADLINE_MS);
}

/* ---- One ---- */

/* "7", or "7.svg": the number, and the format that the extension says (0 = none). */
static sonde_err read_name(struct sonde_slice name, uint64_t *id, int *format,
                           struct sonde_diag *diag) {
    char text[64], quoted[QUERY_QUOTED_SIZE];
    size_t digits = 0;
    *id = *format = 0;
    if (name.len < sizeof text && !memchr(name.data, 0, name.len)) {
        memcpy(text, name.data, name.len);
        text[name.len] = 0;
        digits = strspn(text, "0123456789");
    }
    const struct sonde_format_info *info = digits ? sonde_format_from_name(text) : NULL;
    bool is_good = digits > 0 && digits < 19 &&
                   (!text[digits] || (info && strcmp(info->extension, text + digits) == 0));
    if (!is_good)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "capture: \"%.190s\" is not a number, or a number with .svg .pb.gz "
                          ".collapsed .speedscope.json .txt .callgraph.svg or .prof behind it",
                          query_quote(name, quoted));
    for (size_t i = 0; i < digits; i++)
        *id = *id * 10 + (uint64_t)(text[i] - '0');
    *format = text[digits] ? (int)info->format : 0;
    return SONDE_OK;
}

void handle_v1_capture(struct visit *visit) {
    struct sonde_slice name = visit->path.rest;
    size_t skip = strcspn(visit->route->path, "{");
    struct sonde_diag diag = {0};
    struct capture_form form;
    uint64_t id;
    int format;
    sonde_err err =
        read_name((struct sonde_slice){name.data + skip, name.len - skip}, &id, &format, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    if (!capture_read_form(visit, format ? &extended : &plain, format ? format : plain.format,
                           &form))
        return;
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.id = id;
    request.rendering = &rendering;
    start(visit, &form, id, 0, &client_get_capture, &request.base);
}

/* ---- The difference of two ---- */

static sonde_err read_diff(const struct query *query, Sonde__V1__DiffCapturesRequest *request,
                           struct sonde_diag *diag) {
    bool normalize = false, growth = false;
    sonde_err err = query_whole(query, "base", 1, INT64_MAX, &request->base_id, diag);
    if (!err)
        err = query_whole(query, "new", 1, INT64_MAX, &request->new_id, diag);
    if (!err && (!request->base_id || !request->new_id))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "say which captures, base= and new=; /v1/captures lists them");
    if (!err)
        err = query_flag(query, "normalize", &normalize, diag);
    if (!err)
        err = query_flag(query, "growth", &growth, diag);
    request->normalize = normalize;
    request->growth_only = growth;
    return err;
}

void handle_v1_diff(struct visit *visit) {
    Sonde__V1__DiffCapturesRequest request = SONDE__V1__DIFF_CAPTURES_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct capture_form form;
    sonde_err err = read_diff(&visit->query, &request, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    if (!capture_read_form(visit, &plain, plain.format, &form))
        return;
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.rendering = &rendering;
    start(visit, &form, request.base_id, request.new_id, &client_diff_captures, &request.base);
}
