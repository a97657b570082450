/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/render.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <string.h>

#define COLUMN_LIMIT 1e4 /* with two decimals and a unit the text is ten characters long */

struct scale {
    double factor; /* to the next smaller unit */
    const char *word, *short_word;
};

static const struct scale times[] = {{1, " ns", "ns"},
                                     {1e3, " µs", "us"},
                                     {1e3, " ms", "ms"},
                                     {1e3, " s", "s"},
                                     {60, " min", "mins"}};
static const struct scale sizes[] = {{1, " B", "B"},        {1024, " KiB", "KiB"},
                                     {1024, " MiB", "MiB"}, {1024, " GiB", "GiB"},
                                     {1024, " TiB", "TiB"}, {1024, " PiB", "PiB"}};

static const struct {
    const char *unit;
    const struct scale *scales;
    size_t first, count;
} units[] = {{"nanoseconds", times, 0, 5},
             {"microseconds", times, 1, 5},
             {"milliseconds", times, 2, 5},
             {"seconds", times, 3, 5},
             {"bytes", sizes, 0, 6}};

static bool is_scaled(const char *unit) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].unit) == 0)
            return true;
    return false;
}

size_t draw_time_type(const struct sonde_profile *profile,
                      const struct sonde_draw_options *options) {
    if (options->type || is_scaled(sonde_profile_type(profile, options->type_index).unit))
        return options->type_index;
    for (size_t i = 0; i < sonde_profile_type_count(profile); i++)
        if (is_scaled(sonde_profile_type(profile, i).unit))
            return i;
    return options->type_index;
}

/* The first mapping of the program's code, otherwise the first mapping: pprof puts the program
 * there, and history has mappings in any order. */
static uint32_t program_mapping(const struct sonde_profile *profile) {
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        if (location->kind == SONDE_FRAME_APPLICATION && location->mapping)
            return location->mapping;
    }
    return 1;
}

const char *draw_program(const struct sonde_profile *profile) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, program_mapping(profile));
    const char *path = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

const char *draw_name(const struct sonde_profile *profile,
                      const struct sonde_draw_options *options) {
    return options->title && options->title[0] ? options->title : draw_program(profile);
}

void draw_grouped(struct sonde_buf *out, int64_t value) {
    char digits[24], text[32];
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    size_t count = 0, len = 0;
    do
        digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        text[len++] = '-';
    while (count > 0) {
        text[len++] = digits[--count];
        if (count > 0 && count % 3 == 0)
            text[len++] = ',';
    }
    sonde_buf_append(out, text, len);
}

static const struct scale *choose(int64_t value, const char *unit, double *scaled, bool *whole) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) != 0)
            continue;
        size_t at = units[i].first;
        *scaled = (double)value;
        while (at + 1 < units[i].count && (*scaled >= units[i].scales[at + 1].factor ||
                                           *scaled <= -units[i].scales[at + 1].factor))
            *scaled /= units[i].scales[++at].factor;
        *whole = at == units[i].first;
        return &units[i].scales[at];
    }
    return NULL;
}

void draw_value(struct sonde_buf *out, int64_t value, const char *unit) {
    double scaled;
    bool whole;
    const struct scale *scale = choose(value, unit, &scaled, &whole);
    if (!scale)
        draw_grouped(out, value);
    else
        sonde_buf_printf(out, whole ? "%.0f%s" : "%.2f%s", scaled, scale->word);
}

/* "5", "1.50": without ".00", like pprof. */
static void put_short(struct sonde_buf *out, double value, const char *word) {
    char text[352];
    int len = snprintf(text, sizeof text, "%.2f", value);
    if (len > 3 && strcmp(text + len - 3, ".00") == 0)
        text[len - 3] = 0;
    bool is_nothing = strcmp(text, "0") == 0 || strcmp(text, "-0") == 0;
    sonde_buf_printf(out, "%s%s", is_nothing ? "0" : text, is_nothing ? "" : word);
}

void draw_short_value(struct sonde_buf *out, int64_t value, const char *unit) {
    double scaled;
    bool whole;
    const struct scale *scale = choose(value, unit, &scaled, &whole);
    if (scale)
        put_short(out, scaled, scale->short_word);
    else
        sonde_buf_printf(out, "%lld", (long long)value);
}

static struct draw_unit unit_for(int64_t value, const char *unit) {
    double scaled;
    bool whole;
    const struct scale *scale = value ? choose(value, unit, &scaled, &whole) : NULL;
    return scale ? (struct draw_unit){(double)value / scaled, scale->short_word}
                 : (struct draw_unit){1, ""};
}

/* The unit that pprof chooses: small values keep two digits, unless they are below a hundredth of
 * the largest. */
static struct draw_unit finest_unit(int64_t smallest, int64_t largest, const char *unit) {
    struct draw_unit low = unit_for(smallest ? smallest : largest, unit);
    struct draw_unit high = unit_for(largest, unit);
    double hundredfold = (double)smallest * 100;
    if (low.divisor == high.divisor || hundredfold >= (double)largest)
        return low;
    return unit_for((int64_t)hundredfold, unit);
}

struct draw_unit draw_column_unit(int64_t smallest, int64_t largest, const char *unit) {
    struct draw_unit chosen = finest_unit(smallest, largest, unit);
    double within = chosen.divisor;
    while (chosen.word[0] && (double)largest / chosen.divisor >= COLUMN_LIMIT &&
           within * 10 <= (double)largest)
        chosen = unit_for((int64_t)(within *= 10), unit);
    return chosen;
}

void draw_in_unit(struct sonde_buf *out, int64_t value, const struct draw_unit *unit) {
    if (unit->word[0])
        put_short(out, (double)value / unit->divisor, unit->word);
    else
        sonde_buf_printf(out, "%lld", (long long)value);
}

double draw_percent(int64_t part, int64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

bool draw_is_unfit(uint32_t code) {
    return code == 0xfffe || code == 0xffff || sonde_utf8_is_control(code);
}

static const char *markup(char byte) {
    switch (byte) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Appends one character of text and returns its length in text. */
static size_t xml_character(struct sonde_buf *out, const char *text, size_t len) {
    uint32_t code = 0;
    size_t step = sonde_utf8_next(text, len, &code);
    const char *escaped = markup(*text);
    if (escaped)
        sonde_buf_puts(out, escaped);
    else if (step == 0 || draw_is_unfit(code))
        sonde_buf_puts(out, "\xef\xbf\xbd");
    else
        sonde_buf_append(out, text, step);
    return step ? step : 1;
}

void draw_xml(struct sonde_buf *out, const char *text, size_t max_chars) {
    size_t len = strlen(text), chars = 0;
    bool is_cut = max_chars && draw_text_width(text) > max_chars;
    size_t limit = is_cut ? max_chars - 1 : SIZE_MAX;
    for (size_t i = 0; i < len && chars < limit; chars++)
        i += xml_character(out, text + i, len - i);
    if (is_cut)
        sonde_buf_puts(out, "…");
}

void draw_json(struct sonde_buf *out, const char *text) {
    sonde_buf_putc(out, '"');
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        uint32_t code = 0;
        size_t step = sonde_utf8_next(text + i, len - i, &code);
        if (step == 0)
            sonde_buf_puts(out, "\\ufffd");
        else if (code == '"' || code == '\\')
            sonde_buf_printf(out, "\\%c", (char)code);
        else if (sonde_utf8_is_control(code) || code == '<')
            sonde_buf_printf(out, "\\u%04x", (unsigned)code);
        else
            sonde_buf_append(out, text + i, step);
        i += step ? step : 1;
    }
    sonde_buf_putc(out, '"');
}

size_t draw_text_width(const char *text) {
    size_t chars = 0;
    for (; *text; text++)
        chars += !sonde_utf8_continues(*text);
    return chars;
}
