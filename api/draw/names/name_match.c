/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/names/name_match.h"

#include "api/draw/names/readable_name.h"
#include "api/text/wildcard.h"

#include <string.h>

void draw_name_pattern(struct sonde_buf *out, const char *typed) {
    static const char *const dots[] = {"...", "…"};
    while (*typed) {
        size_t len = 0;
        for (size_t i = 0; i < sizeof dots / sizeof *dots; i++)
            if (strncmp(typed, dots[i], strlen(dots[i])) == 0)
                len = strlen(dots[i]);
        sonde_buf_putc(out, len ? '*' : *typed);
        typed += len ? len : 1;
    }
}

typedef bool compare(const char *name, const char *typed);

static bool begins_before_parameters(const char *name, const char *typed) {
    size_t len = strlen(typed);
    return strncmp(name, typed, len) == 0 && (name[len] == 0 || name[len] == '(');
}

static bool fits_pattern(const char *name, const char *pattern) {
    return sonde_wildcard_matches(pattern, name);
}

/* Tables show parameters if only they tell two functions apart. */
static bool compare_readable(const char *name, compare *same, const char *typed) {
    bool found = false;
    for (int with_parameters = 0; with_parameters < 2 && !found; with_parameters++) {
        struct sonde_buf readable = {0};
        draw_readable_name(&readable, name, with_parameters != 0);
        found = !readable.failed && same(sonde_buf_slice(&readable).data, typed);
        sonde_buf_finish(&readable);
    }
    return found;
}

static bool is_pattern_of(const char *name, const char *typed) {
    struct sonde_buf text = {0};
    draw_name_pattern(&text, typed);
    const char *pattern = sonde_buf_slice(&text).data;
    bool fits = !text.failed && strchr(pattern, '*') &&
                (fits_pattern(name, pattern) || compare_readable(name, fits_pattern, pattern));
    sonde_buf_finish(&text);
    return fits;
}

enum draw_fit draw_name_fit(const char *typed, const char *name) {
    if (!*typed)
        return DRAW_FIT_NONE;
    if (strcmp(typed, name) == 0)
        return DRAW_FIT_EXACT;
    if (compare_readable(name, begins_before_parameters, typed))
        return DRAW_FIT_READABLE;
    return is_pattern_of(name, typed) ? DRAW_FIT_PATTERN : DRAW_FIT_NONE;
}
