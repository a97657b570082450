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

void draw_typed_init(struct draw_typed *typed, const char *name) {
    *typed = (struct draw_typed){.name = name};
    draw_name_pattern(&typed->pattern, name);
    bool is_pattern = strchr(sonde_buf_slice(&typed->pattern).data, '*') != NULL;
    if (!is_pattern)
        draw_typed_finish(typed);
    typed->with_parameters = is_pattern || strchr(name, '(');
}

void draw_typed_finish(struct draw_typed *typed) {
    sonde_buf_finish(&typed->pattern);
}

/* Other parentheses follow a dot or colon: "main.(*Server).Serve", "(anonymous namespace)::f". */
static bool begins_before_parameters(const char *name, const char *typed) {
    size_t len = strlen(typed);
    return strncmp(name, typed, len) == 0 &&
           (name[len] == 0 || (name[len] == '(' && !strchr(".:", name[len - 1])));
}

static bool fits_pattern(const struct draw_typed *typed, const char *name) {
    return typed->pattern.len > 0 && !typed->pattern.failed &&
           sonde_wildcard_matches(typed->pattern.data, name);
}

static enum draw_fit fit_readable(const struct draw_typed *typed, const char *name,
                                  bool with_parameters) {
    struct sonde_buf text = {0};
    draw_readable_name(&text, name, with_parameters);
    const char *readable = sonde_buf_slice(&text).data;
    enum draw_fit fit = text.failed                                       ? DRAW_FIT_NONE
                        : begins_before_parameters(readable, typed->name) ? DRAW_FIT_READABLE
                        : fits_pattern(typed, readable)                   ? DRAW_FIT_PATTERN
                                                                          : DRAW_FIT_NONE;
    sonde_buf_finish(&text);
    return fit;
}

/* Tables show parameters if only they tell two functions apart. */
enum draw_fit draw_typed_fit(const struct draw_typed *typed, const char *name) {
    if (!*typed->name)
        return DRAW_FIT_NONE;
    if (strcmp(typed->name, name) == 0)
        return DRAW_FIT_EXACT;
    enum draw_fit best = fits_pattern(typed, name) ? DRAW_FIT_PATTERN : DRAW_FIT_NONE;
    for (int i = 0; i <= typed->with_parameters && best != DRAW_FIT_READABLE; i++) {
        enum draw_fit found = fit_readable(typed, name, i != 0);
        best = found > best ? found : best;
    }
    return best;
}
