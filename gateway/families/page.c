/* SPDX-License-Identifier: Apache-2.0
 *
 * The page and its files, and those of speedscope, if it is installed. They are static and public:
 * every browser gets them without a token, and all data comes from other paths, which check it.
 * They are cached, but a browser asks every time whether they have changed. */
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"
#include "gateway/ui/asset_folder.h"

#include <string.h>

#define BOUNDS "base-uri 'none'; form-action 'none'; "

/* speedscope sets styles in elements, and reads some files with WebAssembly. */
static const char shell_policy[] = "default-src 'self'; " BOUNDS "frame-ancestors 'none'";
static const char speedscope_policy[] =
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; " BOUNDS "frame-ancestors 'self'";

/* Whether the client has these bytes already. */
static bool is_known(const struct request_context *context, const char *etag) {
    struct sonde_slice known = http_request_header(context->request, "if-none-match");
    return known.data &&
           (sonde_slice_equals(known, "*") || memmem(known.data, known.len, etag, strlen(etag)));
}

static void answer_asset(const struct request_context *context, const struct ui_asset *asset,
                         const char *policy) {
    bool is_html = strcmp(asset->media_type, REPLY_HTML) == 0;
    bool known = is_known(context, asset->etag);
    struct http_answer answer = {
        .status = known ? 304 : 200,
        .content_type = asset->media_type,
        .content_security_policy = is_html ? policy : NULL,
        .headers = {{"cache-control", "no-cache"}, {"etag", asset->etag}, {"vary", "Accept"}},
        .header_count = is_html ? 3 : 2,
    };
    http_answer(context->request, &answer, known ? (struct sonde_slice){0} : asset->bytes);
}

void handle_page(const struct request_context *context) {
    const char *name = context->path.named ? "target.html" : "index.html";
    if (negotiate_wants_html(&context->headers))
        answer_asset(context, ui_asset_find(sonde_slice_of(name)), shell_policy);
    else
        handle_index(context);
}

/* What follows the folder's name in the path. */
static struct sonde_slice name_in(const struct request_context *context, const char *folder) {
    struct sonde_slice path = context->path.rest;
    size_t len = strlen(folder);
    return (struct sonde_slice){path.data + len, path.len - len};
}

void handle_ui_file(const struct request_context *context) {
    const struct ui_asset *asset = ui_asset_find(name_in(context, "/ui/"));
    if (asset)
        answer_asset(context, asset, shell_policy);
    else
        reply_no_path(context->request, context->family);
}

void handle_speedscope(const struct request_context *context) {
    const struct asset_folder *folder = context->gateway->speedscope;
    const struct ui_asset *asset =
        folder ? asset_folder_find(folder, name_in(context, "/speedscope/")) : NULL;
    if (asset)
        answer_asset(context, asset, speedscope_policy);
    else if (folder)
        reply_no_path(context->request, context->family);
    else
        reply_text(context->request, 404,
                   "speedscope is not installed here: put the files of its release into "
                   "share/sonde/speedscope beside bin, or start sonde-gateway with --speedscope "
                   "DIR");
}
