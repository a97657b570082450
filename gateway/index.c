/* SPDX-License-Identifier: Apache-2.0
 *
 * The index: what there is and where, as a page for browsers and as text for everybody else. Its
 * rows are the route table's. Of the request only the target's prefix comes back, re-encoded, so
 * that links keep the target; names of targets are hostile and escaped. */
#include "gateway/exchange.h"
#include "gateway/handlers.h"
#include "gateway/reply.h"
#include "gateway/routes.h"

#include "api/options.h"

#include <string.h>

#define DEADLINE_MS 5000
#define PAGE_POLICY                                                       \
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action " \
    "'none'; frame-ancestors 'none'"

struct index {
    struct exchange exchange;
    bool html;
    bool named; /* only one target's index */
    char prefix[PATH_MAX_NAME * 3 + 8];
};

static void append_html(struct sonde_buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (strchr("<>&\"'", byte))
            sonde_buf_printf(out, "&#%d;", byte);
        else
            sonde_buf_putc(out, byte < ' ' || byte == 0x7f ? '?' : (char)byte);
    }
}

static void append_plain(struct sonde_buf *out, const char *text) {
    char quoted[QUERY_QUOTED_SIZE];
    sonde_buf_puts(out, query_quote(sonde_slice_of(text), quoted));
}

/* "/t/<name>", or by pid where the name could not be told from a pid or is not its alone. */
static void append_prefix(struct sonde_buf *out, const Sonde__V1__ListTargetsResponse *list,
                          const Sonde__V1__Target *target) {
    int32_t pid;
    size_t same = 0;
    for (size_t i = 0; i < list->n_targets; i++)
        same += strcmp(list->targets[i]->name, target->name) == 0;
    bool by_name = same == 1 && path_is_name(sonde_slice_of(target->name)) &&
                   !path_is_pid(sonde_slice_of(target->name), &pid);
    sonde_buf_puts(out, "/t/");
    if (by_name)
        path_append_encoded(out, sonde_slice_of(target->name));
    else
        sonde_buf_printf(out, "%d", target->pid);
}

static void append_targets(const struct index *index, const Sonde__V1__ListTargetsResponse *list,
                           struct sonde_buf *out) {
    if (list->n_targets == 0)
        sonde_buf_puts(out, index->html
                                ? "<p>none: start one with <code>sonde run -- COMMAND</code>"
                                  "</p>\n"
                                : "  none: start one with `sonde run -- COMMAND`\n");
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        sonde_buf_puts(out, index->html ? "<li><a href=\"" : "  ");
        append_prefix(out, list, target);
        if (index->html) {
            sonde_buf_puts(out, "/\">");
            append_html(out, target->name);
            sonde_buf_printf(out, "</a> pid %d</li>\n", target->pid);
        } else {
            sonde_buf_putc(out, ' ');
            append_plain(out, target->name);
            sonde_buf_printf(out, " pid %d\n", target->pid);
        }
    }
}

static void append_route(const struct index *index, const struct route *route,
                         struct sonde_buf *out) {
    const char *prefix = (route->flags & ROUTE_NO_TARGET) ? "" : index->prefix;
    bool has_get = route->methods & METHOD_GET;
    bool reads = !(route->flags & ROUTE_CHANGES_STATE) || (route->flags & ROUTE_GET_READS);
    if (!index->html)
        sonde_buf_printf(out, "  %s%s%s%s\n      %s\n", has_get ? "" : "POST ", prefix, route->path,
                         route->link, route->summary);
    else if (has_get && reads) /* a link that is only followed by mistake must not switch */
        sonde_buf_printf(out, "<dt><a href=\"%s%s%s\">%s%s</a></dt><dd>%s</dd>\n", prefix,
                         route->path, route->link, route->path, route->link, route->summary);
    else
        sonde_buf_printf(out, "<dt>%s%s%s%s</dt><dd>%s</dd>\n", has_get ? "" : "POST ", prefix,
                         route->path, route->link, route->summary);
}

static void append_routes(const struct index *index, struct sonde_buf *out) {
    size_t count;
    const struct route *table = route_table(&count);
    for (size_t i = 0; i < count; i++)
        if (table[i].link)
            append_route(index, &table[i], out);
}

static void append_page(const struct index *index, const Sonde__V1__ListTargetsResponse *list,
                        struct sonde_buf *out) {
    sonde_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width\">"
                        "<title>Sonde</title><link rel=\"stylesheet\" href=\"/style.css\"></head>\n"
                        "<body><h1>Sonde</h1>\n<h2>Targets</h2>\n<ul>\n");
    append_targets(index, list, out);
    sonde_buf_puts(out, "</ul>\n<h2>What to ask</h2>\n<dl>\n");
    append_routes(index, out);
    sonde_buf_printf(out, "</dl>\n<p>version %s</p></body></html>\n", SONDE_VERSION);
}

static void append_text(const struct index *index, const Sonde__V1__ListTargetsResponse *list,
                        struct sonde_buf *out) {
    sonde_buf_puts(out, "Sonde " SONDE_VERSION "\n\ntargets:\n");
    append_targets(index, list, out);
    sonde_buf_puts(out, "\nwhat to ask:\n");
    append_routes(index, out);
}

/* Whether the prefix names somebody. */
static bool is_attached(const struct target_choice *target,
                        const Sonde__V1__ListTargetsResponse *list) {
    for (size_t i = 0; i < list->n_targets; i++)
        if (target->pid ? list->targets[i]->pid == target->pid
                        : strcmp(list->targets[i]->name, target->name) == 0)
            return true;
    return false;
}

static void on_targets(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct index *index = (struct index *)exchange;
    struct sonde_buf out = {0};
    if (index->named && !is_attached(&exchange->target, list)) {
        exchange_refuse(exchange, SONDE_TARGET_NOT_FOUND, NULL);
        return;
    }
    if (index->html)
        append_page(index, list, &out);
    else
        append_text(index, list, &out);
    struct http_answer answer = {.status = 200,
                                 .content_type = index->html ? REPLY_HTML : REPLY_TEXT,
                                 .content_security_policy = index->html ? PAGE_POLICY : NULL,
                                 .headers = {{"vary", "Accept"}},
                                 .header_count = 1};
    http_answer(exchange_take_request(exchange), &answer, sonde_buf_slice(&out));
    sonde_buf_finish(&out);
}

static void keep_prefix(struct index *index, const struct visit *visit) {
    struct sonde_buf prefix = {0};
    if (!visit->path.named)
        return;
    sonde_buf_puts(&prefix, "/t/");
    if (visit->path.pid)
        sonde_buf_printf(&prefix, "%d", visit->path.pid);
    else
        path_append_encoded(&prefix, sonde_slice_of(visit->path.name));
    snprintf(index->prefix, sizeof index->prefix, "%s", prefix.data);
    sonde_buf_finish(&prefix);
    index->named = true;
    index->exchange.target.pid = visit->path.pid;
    memcpy(index->exchange.target.name, visit->path.name, sizeof visit->path.name);
}

void handle_index(struct visit *visit) {
    static const struct exchange_events events = {.on_message = on_targets};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    struct index *index = exchange_create(visit, sizeof *index, &events);
    index->html = negotiate_wants_html(&visit->headers);
    keep_prefix(index, visit);
    exchange_call(&index->exchange, &client_list_targets, &request.base, DEADLINE_MS);
}

void handle_style(struct visit *visit) {
    static const char style[] =
        "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}\n"
        "dt{font-family:ui-monospace,monospace}\ndd{margin:0 0 .8rem 1.5rem}\n"
        "@media(prefers-color-scheme:dark){body{background:#16181c;color:#dde}a{color:#8bf}}\n";
    reply_bytes(visit->request, "text/css; charset=utf-8", sonde_slice_of(style));
}
