/* SPDX-License-Identifier: Apache-2.0
 *
 * The page and its files. They are static and public: every browser gets them without a token, and
 * all data comes from other paths, which check it. They are cached, but a browser asks every time
 * whether they have changed. */
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"
#include "gateway/ui/assets.h"

#include <string.h>

#define SHELL_POLICY \
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Whether the client has these bytes already. */
static bool is_known(const struct request_context *context, const char *etag) {
    struct sonde_slice known = http_request_header(context->request, "if-none-match");
    return known.data &&
           (sonde_slice_equals(known, "*") || memmem(known.data, known.len, etag, strlen(etag)));
}

static void answer_asset(const struct request_context *context, const struct ui_asset *asset) {
    bool is_shell = strcmp(asset->media_type, REPLY_HTML) == 0;
    bool known = is_known(context, asset->etag);
    struct http_answer answer = {
        .status = known ? 304 : 200,
        .content_type = asset->media_type,
        .content_security_policy = is_shell ? SHELL_POLICY : NULL,
        .headers = {{"cache-control", "no-cache"}, {"etag", asset->etag}, {"vary", "Accept"}},
        .header_count = is_shell ? 3 : 2,
    };
    http_answer(context->request, &answer, known ? (struct sonde_slice){0} : asset->bytes);
}

void handle_page(const struct request_context *context) {
    if (negotiate_wants_html(&context->headers))
        answer_asset(context, ui_asset_find(sonde_slice_of("index.html")));
    else
        handle_index(context);
}

void handle_ui_file(const struct request_context *context) {
    struct sonde_slice name = context->path.rest;
    name.data += strlen("/ui/");
    name.len -= strlen("/ui/");
    const struct ui_asset *asset = ui_asset_find(name);
    if (asset)
        answer_asset(context, asset);
    else
        reply_no_path(context->request, context->family);
}
