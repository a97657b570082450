/* SPDX-License-Identifier: Apache-2.0
 *
 * When the rest does not fit, only the last % has to take one more character: whatever an earlier %
 * could take, the last one can take, too. So there is one point to go back to. */
#include "service/store/selector/tree.h"

#include "api/text/utf8.h"

#include <string.h>

/* Bytes of the first character; 1 for invalid UTF-8. */
static size_t character(const char *text) {
    uint32_t code;
    size_t len = sonde_utf8_next(text, strnlen(text, 4), &code);
    return len ? len : 1;
}

/* Whether the pattern's first element, which is not %, fits the text's first character. Moves both
 * on. */
static bool step(const char **pattern, const char **text) {
    const char *p = *pattern, *t = *text;
    if (!*p)
        return false;
    if (*p == '_') {
        *pattern = p + 1;
        *text = t + character(t);
        return true;
    }
    if (*p == '\\' && p[1])
        p++;
    *pattern = p + 1;
    *text = t + 1;
    return *p == *t;
}

bool selector_like(const char *pattern, const char *text) {
    const char *after_percent = NULL, *retry = NULL;
    while (*text) {
        if (*pattern == '%') {
            after_percent = ++pattern;
            retry = text;
        } else if (!step(&pattern, &text)) {
            if (!after_percent)
                return false;
            retry += character(retry);
            pattern = after_percent;
            text = retry;
        }
    }
    return !pattern[strspn(pattern, "%")];
}
