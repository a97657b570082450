/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/index_page.h"

#include "gateway/reply/target_path.h"
#include "gateway/request/query.h"

#include "api/settings/options.h"
#include "api/text/utf8.h"

#include <string.h>

/* The chapters of the page. A route belongs to the last one that has a word of its path; the first
 * one takes the rest and is printed at the end. */
static const struct chapter {
    const char *title, *words[8];
} chapters[] = {
    {"The gateway", {""}},
    {"CPU time and threads",
     {"profile", "cpu", "backtraces", "goroutine", "thread", "block", "mutex"}},
    {"Memory", {"heap", "mem", "alloc"}},
    {"Saved captures", {"captures", "diff"}},
    {"History", {"history", "ProfileTracing"}},
    {"For tools", {"symbol", "cmdline"}},
};

#define CHAPTERS  (sizeof chapters / sizeof chapters[0])
#define MEMORY    2u
#define CAPTURES  3u
#define MAX_SHOWN 16u /* captures */

static size_t chapter_of(const struct route *route) {
    for (size_t i = CHAPTERS; i-- > 1;)
        for (const char *const *word = chapters[i].words; *word; word++)
            if (strstr(route->path, *word))
                return i;
    return 0;
}

static void append_html(struct sonde_buf *out, const char *text) {
    for (size_t len = strlen(text), step = 1; len; text += step, len -= step, step = 1) {
        if (strchr("<>&\"'", *text))
            sonde_buf_printf(out, "&#%d;", *text);
        else
            step = sonde_utf8_put_next(out, text, len, '?');
    }
}

static void append_plain(struct sonde_buf *out, const char *text) {
    char quoted[QUERY_QUOTED_SIZE];
    sonde_buf_puts(out, query_quote(sonde_slice_of(text), quoted));
}

/* Appends a text of the service; it may contain a target's name. */
static void append_sentence(const struct index_page *page, const char *text,
                            struct sonde_buf *out) {
    if (page->html)
        append_html(out, text);
    else
        sonde_utf8_put(out, text, '?');
}

/* ---- The parts ---- */

static void append_advice(const struct index_page *page, const char *advice,
                          struct sonde_buf *out) {
    if (!advice[0])
        return;
    sonde_buf_puts(out, page->html ? "<br><small>" : "      ");
    append_sentence(page, advice, out);
    sonde_buf_puts(out, page->html ? "</small>" : "\n");
}

void index_page_add_targets(struct index_page *page, const Sonde__V1__ListTargetsResponse *list) {
    struct sonde_buf *out = &page->targets;
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        if (target->unattached)
            continue;
        sonde_buf_printf(out, page->html ? "<li><a href=\"%s" : "  %s", page->base);
        target_path_append(out, list, target);
        if (page->html) {
            sonde_buf_puts(out, "/debug/pprof/\">");
            append_html(out, target->name);
            sonde_buf_printf(out, "</a> pid %d", target->pid);
            append_advice(page, target->advice, out);
            sonde_buf_puts(out, "</li>\n");
        } else {
            sonde_buf_putc(out, ' ');
            append_plain(out, target->name);
            sonde_buf_printf(out, " pid %d\n", target->pid);
            append_advice(page, target->advice, out);
        }
    }
}

/* What needs no preparation. */
static void append_unattached(const struct index_page *page, struct sonde_buf *out) {
    const char *base = page->base;
    sonde_buf_printf(
        out,
        page->html ? "<li><a href=\"%s/t/@all/debug/pprof/\">@all</a> every process together</li>\n"
                     "<li>any other process by its pid, /t/&lt;pid&gt;: <a "
                     "href=\"%s/v1/targets?all=true\">list</a></li>\n"
                   : "  %s/t/@all every process together\n"
                     "  /t/<pid> any other process; %s/v1/targets?all=true lists them\n",
        base, base);
}

void index_page_add_heap(struct index_page *page, const Sonde__V1__HeapState *state) {
    if (state->active)
        sonde_buf_printf(&page->heap, "Heap profiling is on, started by %s.",
                         state->owner[0] ? state->owner : "an unknown client");
    else if (state->available && !state->note[0])
        sonde_buf_puts(&page->heap, "Heap profiling is off. Turn it on with "
                                    "PUT /v1/heap?active=true or heap_activate.");
    else
        sonde_buf_printf(&page->heap, "Heap profiling is off: %s.", state->note);
}

static void append_capture(struct index_page *page, const Sonde__V1__Capture *capture,
                           const Sonde__V1__Capture *before) {
    struct sonde_buf *out = &page->captures;
    unsigned long long id = capture->id;
    if (page->html)
        sonde_buf_printf(out, "<li><a href=\"%s/v1/captures/%llu\">%llu</a> ", page->base, id, id);
    else
        sonde_buf_printf(out, "  %s/v1/captures/%llu ", page->base, id);
    append_sentence(page, capture->kind, out);
    sonde_buf_printf(out, " %.1f s ", capture->duration_ms / 1000.0);
    append_sentence(page, capture->target, out);
    sonde_buf_putc(out, ' ');
    append_sentence(page, capture->note, out);
    if (page->html) {
        sonde_buf_printf(out, " <a href=\"%s/v1/captures/%llu.pb.gz\">pprof</a>", page->base, id);
        if (before)
            sonde_buf_printf(
                out, " <a href=\"%s/v1/diff?base=%llu&amp;new=%llu\">changes since %llu</a>",
                page->base, (unsigned long long)before->id, id, (unsigned long long)before->id);
        sonde_buf_puts(out, "</li>");
    }
    sonde_buf_putc(out, '\n');
}

/* The previous capture of the same target and kind, which a difference is useful with. */
static const Sonde__V1__Capture *find_before(const Sonde__V1__ListCapturesResponse *list,
                                             size_t index) {
    const Sonde__V1__Capture *capture = list->captures[index];
    for (size_t i = index + 1; i < list->n_captures; i++)
        if (strcmp(list->captures[i]->target, capture->target) == 0 &&
            strcmp(list->captures[i]->kind, capture->kind) == 0)
            return list->captures[i];
    return NULL;
}

void index_page_add_captures(struct index_page *page, const Sonde__V1__ListCapturesResponse *list) {
    sonde_buf_puts(&page->captures, page->html && list->n_captures ? "<ul>\n" : "");
    for (size_t i = 0; i < list->n_captures && i < MAX_SHOWN; i++)
        append_capture(page, list->captures[i], find_before(list, i));
    sonde_buf_puts(&page->captures, page->html && list->n_captures ? "</ul>\n" : "");
}

/* ---- The page ---- */

static void append_route(const struct index_page *page, const struct route *route,
                         struct sonde_buf *out) {
    const char *prefix = (route->flags & ROUTE_NO_TARGET) ? "" : page->prefix;
    bool has_get = route->methods & METHOD_GET;
    bool reads = !(route->flags & ROUTE_CHANGES_STATE) || (route->flags & ROUTE_GET_READS);
    if (page->is_of_many && !(route->flags & (ROUTE_MANY | ROUTE_NO_TARGET)))
        return;
    if (!page->html)
        sonde_buf_printf(out, "  %s%s%s%s%s\n      %s\n", has_get ? "" : "POST ", page->base,
                         prefix, route->path, route->link, route->summary);
    else if (has_get && reads) /* a link must not change state */
        sonde_buf_printf(out, "<dt><a href=\"%s%s%s%s\">%s%s</a></dt><dd>%s</dd>\n", page->base,
                         prefix, route->path, route->link, route->path, route->link,
                         route->summary);
    else
        sonde_buf_printf(out, "<dt>%s%s%s%s</dt><dd>%s</dd>\n", has_get ? "" : "POST ", prefix,
                         route->path, route->link, route->summary);
}

static void append_chapter(const struct index_page *page, size_t number, struct sonde_buf *out) {
    const char *title = chapters[number].title;
    sonde_buf_printf(out, page->html ? "<h2>%s</h2>\n" : "\n%s:\n", title);
    if (number == MEMORY && page->heap.len) {
        sonde_buf_puts(out, page->html ? "<p>" : "  ");
        append_sentence(page, page->heap.data, out);
        sonde_buf_puts(out, page->html ? "</p>\n" : "\n");
    }
    if (number == CAPTURES)
        sonde_buf_append(out, page->captures.data, page->captures.len);
    sonde_buf_puts(out, page->html ? "<dl>\n" : "");
    for (size_t i = 0; i < page->route_count; i++)
        if (page->routes[i].link && chapter_of(&page->routes[i]) == number)
            append_route(page, &page->routes[i], out);
    sonde_buf_puts(out, page->html ? "</dl>\n" : "");
}

/* The first chapter comes last. */
static void append_chapters(const struct index_page *page, struct sonde_buf *out) {
    for (size_t i = 1; i <= CHAPTERS; i++)
        append_chapter(page, i % CHAPTERS, out);
}

static void append_page(const struct index_page *page, struct sonde_buf *out) {
    sonde_buf_printf(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width\">"
        "<title>Sonde</title><link rel=\"stylesheet\" href=\"%s/ui/list.css\"></head>\n"
        "<body><h1>Sonde</h1>\n",
        page->base);
    sonde_buf_printf(out,
                     "<p><a href=\"%s%s/\">The page</a> shows flame graphs, live samples and "
                     "history.</p>\n<h2>Targets</h2>\n<ul>\n",
                     page->base, page->prefix);
    sonde_buf_append(out, page->targets.data, page->targets.len);
    append_unattached(page, out);
    sonde_buf_puts(out, "</ul>\n");
    append_chapters(page, out);
    sonde_buf_printf(out, "<p>version %s</p></body></html>\n", SONDE_VERSION);
}

static void append_text(const struct index_page *page, struct sonde_buf *out) {
    sonde_buf_puts(out, "Sonde " SONDE_VERSION "\n\nTargets:\n");
    sonde_buf_append(out, page->targets.data, page->targets.len);
    append_unattached(page, out);
    append_chapters(page, out);
}

void index_page_write(const struct index_page *page, struct sonde_buf *out) {
    if (page->html)
        append_page(page, out);
    else
        append_text(page, out);
}

void index_page_finish(struct index_page *page) {
    sonde_buf_finish(&page->targets);
    sonde_buf_finish(&page->heap);
    sonde_buf_finish(&page->captures);
}
