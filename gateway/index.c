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

#define DEADLINE_MS       5000
#define EXTRA_DEADLINE_MS 1000
#define PAGE_POLICY                                                       \
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action " \
    "'none'; frame-ancestors 'none'"

struct index {
    struct exchange exchange;
    bool html;
    bool named; /* only one target's index */
    char prefix[PATH_MAX_NAME * 3 + 8];
    struct sonde_buf targets; /* the list, drawn */
    int32_t pid;              /* whose heap's state is told; 0 = nobody's */
    struct sonde_buf heap;    /* its sentence; empty = not known */
    struct sonde_buf kept;    /* the newest captures, drawn */
};

/* The chapters of the page, in their order; a row belongs to the first whose word is in its path
 * when they are tried from the last. */
static const struct chapter {
    const char *title, *words[8];
} chapters[] = {
    {"The gateway", {""}},
    {"CPU time and threads", {"profile", "cpu", "backtraces"}},
    {"Memory", {"heap", "mem", "alloc"}},
    {"Captures that are kept", {"captures", "diff"}},
    {"For tools", {"symbol", "cmdline"}},
};

#define CHAPTERS (sizeof chapters / sizeof chapters[0])
#define MEMORY   2u
#define KEPT     3u
#define MAX_KEPT 16u /* shown */

static size_t chapter_of(const struct route *route) {
    for (size_t i = CHAPTERS; i-- > 1;)
        for (const char *const *word = chapters[i].words; *word; word++)
            if (strstr(route->path, *word))
                return i;
    return 0;
}

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

/* A sentence of the service, which may hold a target's name. */
static void append_sentence(const struct index *index, const char *text, struct sonde_buf *out) {
    if (index->html) {
        append_html(out, text);
        return;
    }
    for (; *text; text++)
        sonde_buf_putc(out, *text < ' ' || *text == 0x7f ? '?' : *text);
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

static void append_chapter(const struct index *index, size_t number, struct sonde_buf *out) {
    size_t count;
    const struct route *table = route_table(&count);
    const char *title = chapters[number].title;
    sonde_buf_printf(out, index->html ? "<h2>%s</h2>\n" : "\n%s:\n", title);
    if (number == MEMORY && index->heap.len) {
        sonde_buf_puts(out, index->html ? "<p>" : "  ");
        append_sentence(index, index->heap.data, out);
        sonde_buf_puts(out, index->html ? "</p>\n" : "\n");
    }
    if (number == KEPT)
        sonde_buf_append(out, index->kept.data, index->kept.len);
    sonde_buf_puts(out, index->html ? "<dl>\n" : "");
    for (size_t i = 0; i < count; i++)
        if (table[i].link && chapter_of(&table[i]) == number)
            append_route(index, &table[i], out);
    sonde_buf_puts(out, index->html ? "</dl>\n" : "");
}

/* What is not about a target comes last. */
static void append_chapters(const struct index *index, struct sonde_buf *out) {
    for (size_t i = 1; i <= CHAPTERS; i++)
        append_chapter(index, i % CHAPTERS, out);
}

static void append_page(const struct index *index, struct sonde_buf *out) {
    sonde_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width\">"
                        "<title>Sonde</title><link rel=\"stylesheet\" href=\"/style.css\"></head>\n"
                        "<body><h1>Sonde</h1>\n<h2>Targets</h2>\n<ul>\n");
    sonde_buf_append(out, index->targets.data, index->targets.len);
    sonde_buf_puts(out, "</ul>\n");
    append_chapters(index, out);
    sonde_buf_printf(out, "<p>version %s</p></body></html>\n", SONDE_VERSION);
}

static void append_text(const struct index *index, struct sonde_buf *out) {
    sonde_buf_puts(out, "Sonde " SONDE_VERSION "\n\nTargets:\n");
    sonde_buf_append(out, index->targets.data, index->targets.len);
    append_chapters(index, out);
}

static void answer(struct index *index) {
    struct sonde_buf out = {0};
    if (index->html)
        append_page(index, &out);
    else
        append_text(index, &out);
    struct http_answer answer = {.status = 200,
                                 .content_type = index->html ? REPLY_HTML : REPLY_TEXT,
                                 .content_security_policy = index->html ? PAGE_POLICY : NULL,
                                 .headers = {{"vary", "Accept"}},
                                 .header_count = 1};
    http_answer(exchange_take_request(&index->exchange), &answer, sonde_buf_slice(&out));
    sonde_buf_finish(&out);
}

static void finish(struct exchange *exchange) {
    struct index *index = (struct index *)exchange;
    sonde_buf_finish(&index->targets);
    sonde_buf_finish(&index->heap);
    sonde_buf_finish(&index->kept);
}

/* ---- The captures that are kept ---- */

static void append_capture(struct index *index, const Sonde__V1__Capture *capture,
                           const Sonde__V1__Capture *before) {
    struct sonde_buf *out = &index->kept;
    unsigned long long id = capture->id;
    if (index->html)
        sonde_buf_printf(out, "<li><a href=\"/v1/captures/%llu\">%llu</a> ", id, id);
    else
        sonde_buf_printf(out, "  /v1/captures/%llu ", id);
    append_sentence(index, capture->kind, out);
    sonde_buf_printf(out, " %.1f s ", capture->duration_ms / 1000.0);
    append_sentence(index, capture->target, out);
    sonde_buf_putc(out, ' ');
    append_sentence(index, capture->note, out);
    if (index->html) {
        sonde_buf_printf(out, " <a href=\"/v1/captures/%llu.pb.gz\">pprof</a>", id);
        if (before)
            sonde_buf_printf(out, " <a href=\"/v1/diff?base=%llu&amp;new=%llu\">since %llu</a>",
                             (unsigned long long)before->id, id, (unsigned long long)before->id);
        sonde_buf_puts(out, "</li>");
    }
    sonde_buf_putc(out, '\n');
}

/* The newest earlier one of the same target and kind: what a difference makes sense with. */
static const Sonde__V1__Capture *find_before(const Sonde__V1__ListCapturesResponse *list,
                                             size_t index) {
    const Sonde__V1__Capture *capture = list->captures[index];
    for (size_t i = index + 1; i < list->n_captures; i++)
        if (strcmp(list->captures[i]->target, capture->target) == 0 &&
            strcmp(list->captures[i]->kind, capture->kind) == 0)
            return list->captures[i];
    return NULL;
}

static void on_captures(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__ListCapturesResponse *list = (const void *)message;
    struct index *index = (struct index *)exchange;
    sonde_buf_puts(&index->kept, index->html && list->n_captures ? "<ul>\n" : "");
    for (size_t i = 0; i < list->n_captures && i < MAX_KEPT; i++)
        append_capture(index, list->captures[i], find_before(list, i));
    sonde_buf_puts(&index->kept, index->html && list->n_captures ? "</ul>\n" : "");
}

/* Without them the page is whole, too. */
static void on_captures_end(struct exchange *exchange, sonde_err err,
                            const struct sonde_diag *diag) {
    answer((struct index *)exchange);
}

static void ask_captures(struct index *index) {
    static const struct exchange_events events = {on_captures, on_captures_end, finish};
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&index->exchange.target);
    request.target = &selector;
    index->exchange.events = &events;
    exchange_call(&index->exchange, &client_list_captures, &request.base, EXTRA_DEADLINE_MS);
}

/* ---- The heap's state: what works now, and for what is off the line that turns it on ---- */

static void on_heap(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    struct index *index = (struct index *)exchange;
    if (state->active)
        sonde_buf_printf(&index->heap, "Heap profiling is on, switched by %s.",
                         state->owner[0] ? state->owner : "somebody");
    else if (state->available && !state->note[0])
        sonde_buf_puts(&index->heap, "Heap profiling is off: PUT /v1/heap?active=true or "
                                     "heap_activate switches it on.");
    else
        sonde_buf_printf(&index->heap, "Heap profiling is off: %s.", state->note);
}

static void on_heap_end(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    ask_captures((struct index *)exchange);
}

static void ask_heap(struct index *index) {
    static const struct exchange_events events = {on_heap, on_heap_end, finish};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    selector.pid = index->pid;
    request.target = &selector;
    index->exchange.events = &events;
    exchange_call(&index->exchange, &client_heap_status, &request.base, EXTRA_DEADLINE_MS);
}

/* ---- The targets ---- */

/* The process that the prefix names, or the only one; 0 = several fit, or none. */
static int32_t find_pid(const struct index *index, const Sonde__V1__ListTargetsResponse *list,
                        size_t *fitting) {
    const struct target_choice *target = &index->exchange.target;
    int32_t pid = 0;
    *fitting = 0;
    for (size_t i = 0; i < list->n_targets; i++) {
        bool fits = !index->named || (target->pid ? list->targets[i]->pid == target->pid
                                                  : !strcmp(list->targets[i]->name, target->name));
        *fitting += fits;
        pid = fits ? list->targets[i]->pid : pid;
    }
    return *fitting == 1 ? pid : 0;
}

static void on_targets(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct index *index = (struct index *)exchange;
    size_t fitting;
    index->pid = find_pid(index, list, &fitting);
    if (index->named && fitting == 0)
        exchange_refuse(exchange, SONDE_TARGET_NOT_FOUND, NULL);
    else
        append_targets(index, list, &index->targets);
}

static void on_targets_end(struct exchange *exchange, sonde_err err,
                           const struct sonde_diag *diag) {
    struct index *index = (struct index *)exchange;
    if (err)
        exchange_refuse(exchange, err, diag);
    else if (index->pid)
        ask_heap(index);
    else
        ask_captures(index);
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
    static const struct exchange_events events = {on_targets, on_targets_end, finish};
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
