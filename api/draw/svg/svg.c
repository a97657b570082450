/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/svg/svg.h"
#include "api/draw/accuracy.h"
#include "api/draw/negatives.h"
#include "api/draw/svg/embedded.h"
#include "api/draw/title.h"
#include "api/profile/event.h"
#include "api/settings/options.h"
#include "api/text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CHARS  185 /* characters of the subtitle that fit the width */
#define LINE_HEIGHT 16
#define TITLE_END   40
#define KEY_CHAR    6.7
#define SPACE       10
#define EMPTY_WIDTH 560

void draw_number(struct sonde_buf *out, double value) {
    long long hundredths = llround(value * 100);
    long long whole = hundredths / 100, rest = hundredths % 100;
    if (rest == 0)
        sonde_buf_printf(out, "%lld", whole);
    else if (rest % 10 == 0)
        sonde_buf_printf(out, "%lld.%lld", whole, rest / 10);
    else
        sonde_buf_printf(out, "%lld.%02lld", whole, rest);
}

void draw_put_names(struct sonde_buf *out, const char *name, const char *shown) {
    if (strcmp(shown, name) != 0) {
        sonde_buf_puts(out, " data-s=\"");
        draw_xml(out, shown, 0);
        sonde_buf_putc(out, '"');
    }
    sonde_buf_puts(out, "><title>");
    draw_xml(out, name, 0);
}

/* A line each: the base, the new profile, the change. */
static void put_sides(struct draw_page *page, const struct sonde_draw_comparison *comparison) {
    struct sonde_buf *subtitle = &page->subtitle;
    sonde_buf_puts(subtitle, "Base: ");
    draw_put_side(subtitle, &comparison->base, page->type.unit, draw_value);
    sonde_buf_puts(subtitle, "\nNew: ");
    draw_put_side(subtitle, &comparison->now, page->type.unit, draw_value);
    sonde_buf_puts(subtitle, "\nChange: ");
    draw_put_total_change(subtitle, comparison, page->type.unit, draw_value);
    if (comparison->note)
        sonde_buf_printf(subtitle, "\n%s", comparison->note);
}

/* The default subtitle, from the profile. A title of the user's may not say what it is of. */
static void put_subtitle(struct draw_page *page, const struct sonde_profile *profile,
                         const struct sonde_draw_options *options) {
    struct sonde_buf *subtitle = &page->subtitle;
    if (options->comparison) {
        put_sides(page, options->comparison);
        return;
    }
    draw_value(subtitle, page->total, page->type.unit);
    const char *words = sonde_event_counted_words(page->type.type);
    sonde_buf_printf(subtitle, " %s", words ? words : page->type.type);
    if (options->title) {
        sonde_buf_puts(subtitle, " · ");
        draw_put_title(subtitle, profile, options, "unknown program");
    }
    struct sonde_buf estimate = {0};
    draw_put_accuracy(profile, options->type_index, &estimate);
    if (estimate.len)
        sonde_buf_printf(subtitle, " · %s", estimate.data);
    sonde_buf_finish(&estimate);
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        sonde_buf_printf(subtitle, " · %s", sonde_profile_comment(profile, i));
}

/* Both pictures leave them out. */
static void put_negatives(struct draw_page *page, const struct sonde_profile *profile,
                          const struct sonde_draw_options *options) {
    struct sonde_buf text = {0};
    draw_put_negatives(&text, profile, SONDE_FORMAT_SVG_FLAMEGRAPH, options);
    if (text.len)
        sonde_buf_printf(&page->subtitle, " · %s", text.data);
    sonde_buf_finish(&text);
}

/* The length of the next line: at most LINE_CHARS characters, broken at a space if possible. */
static size_t line_length(const char *text) {
    size_t chars = 0, space = 0, at = 0;
    for (; text[at] && text[at] != '\n'; at++) {
        if (!sonde_utf8_continues(text[at]) && chars++ == LINE_CHARS)
            return space ? space : at;
        if (text[at] == ' ')
            space = at;
    }
    return at;
}

static void wrap(struct draw_page *page) {
    const char *text = sonde_buf_slice(&page->subtitle).data;
    while (*text && page->line_count < DRAW_MAX_LINES) {
        size_t len = page->line_count + 1 < DRAW_MAX_LINES ? line_length(text) : strlen(text);
        page->lines[page->line_count++] = (struct sonde_slice){text, len};
        text += len;
        text += *text == ' ' || *text == '\n';
    }
}

static void layout(struct draw_page *page) {
    page->top = TITLE_END + LINE_HEIGHT * (int)page->line_count +
                (page->key_count ? LINE_HEIGHT : 0) + SPACE;
}

void draw_page_init(struct draw_page *page, const struct sonde_profile *profile,
                    const struct sonde_draw_options *options, int64_t total, const char *title,
                    struct sonde_buf *out) {
    *page = (struct draw_page){.out = out,
                               .type = sonde_profile_type(profile, options->type_index),
                               .total = total,
                               .width = DRAW_WIDTH};
    if (options->title)
        sonde_buf_puts(&page->title, options->title);
    else
        draw_put_title(&page->title, profile, options, title);
    if (options->subtitle)
        sonde_buf_puts(&page->subtitle, options->subtitle);
    else
        put_subtitle(page, profile, options);
    put_negatives(page, profile, options);
    wrap(page);
    layout(page);
}

void draw_page_key(struct draw_page *page, const char *colour, const char *text, double percent) {
    if (page->key_count == DRAW_MAX_KEYS)
        return;
    struct draw_key *key = &page->keys[page->key_count++];
    memcpy(key->colour, colour, sizeof key->colour);
    draw_xml(&key->text, text, 40);
    if (percent >= 0)
        sonde_buf_printf(&key->text, " %.1f %%", percent);
    layout(page);
}

void draw_page_finish(struct draw_page *page) {
    sonde_buf_finish(&page->title);
    sonde_buf_finish(&page->subtitle);
    sonde_buf_finish(&page->note);
    for (size_t i = 0; i < page->key_count; i++)
        sonde_buf_finish(&page->keys[i].text);
    for (size_t i = 0; i < page->row_count; i++) {
        sonde_buf_finish(&page->rows[i].value);
        sonde_buf_finish(&page->rows[i].name);
        sonde_buf_finish(&page->rows[i].path);
    }
}

/* Copies the slice, because draw_xml needs a NUL. */
static void put_line(struct sonde_buf *out, struct sonde_slice line, size_t max_chars) {
    char *text = strndup(line.data, line.len);
    if (text)
        draw_xml(out, text, max_chars);
    else
        out->failed = true;
    free(text);
}

static void put_static_head(struct draw_page *page) {
    struct sonde_buf *out = page->out;
    int y = TITLE_END;
    double x = DRAW_SIDE;
    sonde_buf_printf(out, "<g class=\"static\">\n<text class=\"title\" x=\"%d\" y=\"30\">",
                     DRAW_SIDE);
    draw_xml(out, sonde_buf_slice(&page->title).data, 100);
    sonde_buf_puts(out, "</text>\n");
    for (size_t i = 0; i < page->line_count; i++, y += LINE_HEIGHT) {
        sonde_buf_printf(out, "<text class=\"sub\" x=\"%d\" y=\"%d\">", DRAW_SIDE, y + 10);
        put_line(out, page->lines[i], LINE_CHARS + 5);
        sonde_buf_puts(out, "</text>\n");
    }
    for (size_t i = 0; i < page->key_count; i++) {
        const struct draw_key *key = &page->keys[i];
        const char *text = sonde_buf_slice(&key->text).data;
        sonde_buf_printf(out, "<path class=\"%s\" d=\"M%.0f %dh10v10h-10z\"/>", key->colour, x,
                         y + 2);
        sonde_buf_printf(out, "<text class=\"sub\" x=\"%.0f\" y=\"%d\">%s</text>\n", x + 15, y + 11,
                         text);
        x += 32 + KEY_CHAR * (double)draw_text_width(text);
    }
    sonde_buf_puts(out, "</g>\n");
}

static void put_tools(struct sonde_buf *out, bool flame) {
    sonde_buf_puts(
        out,
        "<div class=\"tools\"><input type=\"search\" placeholder=\"Search: name or regex\" "
        "aria-label=\"Search\"/>"
        "<button data-k=\"c\" title=\"ignore case (c)\">aA</button><span class=\"count\"></span>"
        "<button data-k=\"N\" title=\"previous match (N)\">‹</button>"
        "<button data-k=\"n\" title=\"next match (n)\">›</button>");
    if (flame)
        sonde_buf_puts(out,
                       "<button data-k=\"i\" title=\"invert: leaves first (i)\">Invert</button>"
                       "<button data-k=\"f\" title=\"root at the top or bottom (f)\">Flip</button>"
                       "<button data-k=\"0\" title=\"reset zoom and search (0)\">Reset</button>");
    sonde_buf_puts(out, "<button data-k=\"d\" title=\"dark or light (d)\">◐</button>"
                        "<button data-k=\"?\" title=\"keys (?)\">?</button></div>\n");
}

static void put_paragraphs(struct sonde_buf *out, const char *text) {
    do {
        size_t len = strcspn(text, "\n");
        sonde_buf_puts(out, "<p>");
        put_line(out, (struct sonde_slice){text, len}, 0);
        sonde_buf_puts(out, "</p>\n");
        text += len + (text[len] == '\n');
    } while (*text);
}

/* The title and subtitle as HTML, which wraps to any width. The script shows it. */
static void put_live_head(struct draw_page *page, bool flame) {
    struct sonde_buf *out = page->out;
    sonde_buf_printf(out,
                     "<foreignObject class=\"head\" x=\"%d\" y=\"0\" width=\"%d\" height=\"%d\">"
                     "<div xmlns=\"http://www.w3.org/1999/xhtml\" class=\"bar\">\n",
                     DRAW_SIDE, page->width - 2 * DRAW_SIDE, page->top);
    put_tools(out, flame);
    sonde_buf_puts(out, "<h1>");
    draw_xml(out, sonde_buf_slice(&page->title).data, 200);
    sonde_buf_puts(out, "</h1>\n");
    put_paragraphs(out, sonde_buf_slice(&page->subtitle).data);
    sonde_buf_puts(out, "<p class=\"keys\">");
    for (size_t i = 0; i < page->key_count; i++)
        sonde_buf_printf(out,
                         "<span><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dot\">"
                         "<path class=\"%s\" d=\"M0 0h10v10h-10z\"/></svg>%s</span>\n",
                         page->keys[i].colour, sonde_buf_slice(&page->keys[i].text).data);
    sonde_buf_puts(out, "</p></div></foreignObject>\n");
}

static void put_document_start(struct draw_page *page) {
    struct sonde_buf *out = page->out;
    int height = page->bottom + draw_gone_height(page) + 32;
    sonde_buf_printf(out,
                     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sonde\" width=\"%d\" "
                     "height=\"%d\" viewBox=\"0 0 %d %d\" ",
                     page->width, height, page->width, height);
    sonde_buf_printf(out, "data-total=\"%lld\" data-right=\"%d\" data-bottom=\"%d\" data-type=\"",
                     (long long)page->total, page->right ? page->right : page->width,
                     page->bottom - page->top);
    draw_xml(out, page->type.type, 0);
    sonde_buf_puts(out, "\" data-unit=\"");
    draw_xml(out, page->type.unit, 0);
    sonde_buf_puts(out, "\">\n<title>");
    draw_xml(out, sonde_buf_slice(&page->title).data, 200);
    sonde_buf_puts(out, "</title>\n<style><![CDATA[");
    sonde_buf_append(out, draw_style, draw_style_len);
    sonde_buf_puts(out, "]]></style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
}

void draw_page_open(struct draw_page *page) {
    put_document_start(page);
    put_static_head(page);
}

void draw_page_close(struct draw_page *page, bool flame) {
    struct sonde_buf *out = page->out;
    draw_gone_put_static(page);
    sonde_buf_printf(out, "<text class=\"foot\" x=\"%d\" y=\"%d\">Sonde " SONDE_VERSION, DRAW_SIDE,
                     page->bottom + draw_gone_height(page) + 20);
    draw_xml(out, sonde_buf_slice(&page->note).data, 0);
    sonde_buf_puts(out, "</text>\n");
    put_live_head(page, flame);
    draw_gone_put_live(page);
    sonde_buf_puts(
        out, "<foreignObject class=\"over\" width=\"1\" height=\"1\">"
             "<div xmlns=\"http://www.w3.org/1999/xhtml\" class=\"hint\"><b></b><span></span></div>"
             "</foreignObject>\n"
             "<desc class=\"help\">/  search, a regular expression\nn N  next, previous match\n"
             "c  ignore case\n0  reset zoom and search\ni  invert: leaves first\n"
             "f  root at the top or bottom\narrows, Enter  move, zoom\nd  dark or light\n"
             "Esc  clear the search</desc>\n<script><![CDATA[");
    sonde_buf_append(out, draw_script, draw_script_len);
    sonde_buf_puts(out, "]]></script>\n</svg>\n");
}

static const char *why_empty(const struct draw_page *page) {
    if (draw_is_memory(&page->type))
        return "No allocation was sampled.";
    return "No thread used enough CPU time for a sample during the capture.";
}

void draw_page_empty(struct draw_page *page) {
    page->bottom = page->top + 140;
    page->right = EMPTY_WIDTH;
    draw_page_open(page);
    sonde_buf_printf(page->out,
                     "<g class=\"graph\" transform=\"translate(%d %d)\">"
                     "<text class=\"empty\" x=\"%d\" y=\"60\">no samples</text>\n"
                     "<text class=\"why\" x=\"%d\" y=\"88\">%s</text></g>\n",
                     (page->width - EMPTY_WIDTH) / 2, page->top, EMPTY_WIDTH / 2, EMPTY_WIDTH / 2,
                     why_empty(page));
    draw_page_close(page, false);
}

const char *sonde_draw_svg_script_hash(void) {
    return draw_script_hash;
}

const char *sonde_draw_svg_style_hash(void) {
    return draw_style_hash;
}
