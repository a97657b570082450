/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/text.h"

#include "api/json/json.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static size_t count_lines(const char *bytes, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += bytes[i] == '\n';
    return count;
}

void mcp_text_add(struct mcp_text *text, const char *bytes, size_t len) {
    size_t room = MCP_KEPT_BYTES - text->data.len, kept = len < room ? len : room;
    sonde_buf_append(&text->data, bytes, kept);
    text->lost_lines += count_lines(bytes + kept, len - kept);
}

void mcp_text_puts(struct mcp_text *text, const char *string) {
    mcp_text_add(text, string, strlen(string));
}

/* The bytes of whole characters among the first `most`. */
static size_t cut(const char *text, size_t len, size_t most) {
    if (len <= most)
        return len;
    while (most > 0 && sonde_utf8_continues(text[most]))
        most--;
    return most;
}

/* Zero width, tags and selectors of variants: readers do not see them, but models read them. */
static bool is_invisible(uint32_t code) {
    static const uint32_t ranges[][2] = {{0x00ad, 0x00ad},  {0x180b, 0x180f}, {0x200b, 0x200d},
                                         {0x2060, 0x2064},  {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
                                         {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

static void clean(struct sonde_buf *out, const char *text, size_t len) {
    size_t start = 0, step;
    for (size_t i = 0; i < len; i += step ? step : 1) {
        uint32_t code;
        step = sonde_utf8_next(text + i, len - i, &code);
        if (!step || !is_invisible(code))
            continue;
        sonde_utf8_clean(out, text + start, i - start);
        sonde_buf_printf(out, "\\u{%x}", code);
        start = i + step;
    }
    sonde_utf8_clean(out, text + start, len - start);
}

void mcp_text_put_name(struct mcp_text *text, const char *name, size_t most) {
    struct sonde_buf shown = {0};
    size_t len = strlen(name), kept = cut(name, len, most);
    clean(&shown, name, kept);
    if (kept < len)
        sonde_buf_puts(&shown, "…");
    mcp_text_add(text, sonde_buf_slice(&shown).data, shown.len);
    sonde_buf_finish(&shown);
}

/* The line as it is shown, with its end. */
static void clean_line(const char *line, size_t len, struct sonde_buf *out) {
    size_t kept = cut(line, len, MCP_LINE_BYTES);
    clean(out, line, kept);
    sonde_buf_puts(out, kept < len ? "…\n" : "\n");
}

/* The bytes that a string takes as JSON, without the quotes. */
static size_t json_size(const struct sonde_buf *text) {
    struct sonde_buf json = {0};
    sonde_json_string(&json, sonde_buf_slice(text));
    size_t len = json.len;
    sonde_buf_finish(&json);
    return len;
}

/* Appends as many lines as fit; returns the number of the others. */
static size_t put_lines(const struct mcp_text *text, size_t room, struct sonde_buf *out) {
    const char *end = text->data.data + text->data.len, *next;
    for (const char *line = text->data.data; line < end; line = next) {
        struct sonde_buf shown = {0};
        next = memchr(line, '\n', (size_t)(end - line));
        clean_line(line, (size_t)((next ? next : end) - line), &shown);
        next = next ? next + 1 : end;
        size_t size = json_size(&shown);
        bool fits = size <= room;
        if (fits)
            sonde_buf_append(out, shown.data, shown.len);
        sonde_buf_finish(&shown);
        if (!fits)
            return count_lines(line, (size_t)(end - line)) + text->lost_lines +
                   (text->lost_lines == 0 && end[-1] != '\n');
        room -= size;
    }
    return text->lost_lines;
}

static void put_data(const struct mcp_text *text, const char *word, struct sonde_buf *out) {
    size_t taken = json_size(&text->head) + json_size(&text->tail) + MCP_NOTICE_SIZE;
    sonde_buf_printf(out, "<data %s>\n", word);
    size_t left_out = put_lines(text, taken < MCP_TEXT_BYTES ? MCP_TEXT_BYTES - taken : 0, out);
    sonde_buf_printf(out, "</data %s>\n", word);
    if (left_out)
        sonde_buf_printf(out, "%zu more lines are left out, because an answer has at most 8 KB.\n",
                         left_out);
}

void mcp_text_write(const struct mcp_text *text, const char word[MCP_WORD_SIZE],
                    struct sonde_buf *out) {
    struct sonde_buf whole = {0};
    sonde_buf_append(&whole, text->head.data, text->head.len);
    if (text->data.len)
        put_data(text, word, &whole);
    sonde_buf_append(&whole, text->tail.data, text->tail.len);
    sonde_json_string(out, sonde_buf_slice(&whole));
    sonde_buf_finish(&whole);
}

void mcp_text_finish(struct mcp_text *text) {
    sonde_buf_finish(&text->head);
    sonde_buf_finish(&text->data);
    sonde_buf_finish(&text->tail);
}

void mcp_text_word(char word[MCP_WORD_SIZE]) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        abort();
    snprintf(word, MCP_WORD_SIZE, "%016llx", (unsigned long long)bits);
}
