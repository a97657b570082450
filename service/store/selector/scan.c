/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/selector/scan.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool starts_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool continues_name(char c) {
    return starts_name(c) || is_digit(c) || c == '.';
}

static void skip_blanks(struct scan *scan) {
    scan->at += strspn(scan->text + scan->at, " \t\r\n");
}

sonde_err scan_fail(const struct scan *scan, size_t at, const char *what) {
    return sonde_fail(scan->diag, SONDE_INVALID_ARGUMENT, "byte %zu: expected %s", at, what);
}

bool scan_end(struct scan *scan) {
    skip_blanks(scan);
    return !scan->text[scan->at];
}

bool scan_take(struct scan *scan, const char *token) {
    size_t len = strlen(token);
    skip_blanks(scan);
    if (strncmp(scan->text + scan->at, token, len) != 0)
        return false;
    scan->at += len;
    return true;
}

static size_t name_length(const char *text) {
    size_t len = 0;
    if (starts_name(text[0]))
        while (continues_name(text[len]))
            len++;
    return len;
}

static bool is_word(const char *text, size_t len, const char *word) {
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

bool scan_word(struct scan *scan, const char *word) {
    skip_blanks(scan);
    size_t len = name_length(scan->text + scan->at);
    if (!is_word(scan->text + scan->at, len, word))
        return false;
    scan->at += len;
    return true;
}

static bool is_reserved(const char *text, size_t len) {
    static const char *const words[] = {"AND", "OR", "NOT", "IN", "LIKE", "REGEXP"};
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        found = found || is_word(text, len, words[i]);
    return found;
}

static sonde_err copy(struct scan *scan, const char *start, size_t len, const char **result) {
    *result = sonde_arena_dup(scan->arena, start, len);
    return *result ? SONDE_OK : sonde_fail(scan->diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static sonde_err scan_quoted_name(struct scan *scan, const char **name) {
    const char *start = scan->text + scan->at + 1;
    size_t len = strcspn(start, "`");
    if (!len)
        return scan_fail(scan, scan->at + 1, "a name between the back-quotes");
    if (!start[len])
        return scan_fail(scan, scan->at + 1 + len, "a back-quote after the name");
    scan->at += len + 2;
    return copy(scan, start, len, name);
}

sonde_err scan_name(struct scan *scan, const char **name) {
    skip_blanks(scan);
    const char *start = scan->text + scan->at;
    if (*start == '`')
        return scan_quoted_name(scan, name);
    size_t len = name_length(start);
    if (!len || is_reserved(start, len))
        return scan_fail(scan, scan->at, "the name of a label");
    scan->at += len;
    return copy(scan, start, len, name);
}

/* One character of a quoted text; false at the closing quote and at the end of the text. */
static bool take_character(struct scan *scan, char quote, char *character) {
    const char *next = scan->text + scan->at;
    if (!next[0] || (next[0] == quote && next[1] != quote))
        return false;
    bool is_pair = next[0] == quote ||
                   (next[0] == '\\' && (next[1] == '\'' || next[1] == '"' || next[1] == '\\'));
    *character = next[is_pair];
    scan->at += 1 + is_pair;
    return true;
}

sonde_err scan_text(struct scan *scan, const char **value) {
    skip_blanks(scan);
    char quote = scan->text[scan->at], character;
    if (quote != '\'' && quote != '"')
        return scan_fail(scan, scan->at, "a value in quotes");
    scan->at++;
    /* The result is not longer than what is left of the text. */
    char *result = sonde_arena_alloc(scan->arena, strlen(scan->text + scan->at) + 1);
    if (!result)
        return sonde_fail(scan->diag, SONDE_OUT_OF_MEMORY, "out of memory");
    size_t len = 0;
    while (take_character(scan, quote, &character))
        result[len++] = character;
    if (!scan->text[scan->at])
        return scan_fail(scan, scan->at, quote == '"' ? "a closing \"" : "a closing '");
    scan->at++;
    *value = result;
    return SONDE_OK;
}

static size_t digits(const char *text) {
    return strspn(text, "0123456789");
}

static size_t number_length(const char *text) {
    size_t sign = text[0] == '-', len = sign + digits(text + sign);
    if (len == sign)
        return 0;
    if (text[len] == '.' && is_digit(text[len + 1]))
        len += 1 + digits(text + len + 1);
    return continues_name(text[len]) ? 0 : len;
}

sonde_err scan_value(struct scan *scan, const char **value) {
    skip_blanks(scan);
    const char *start = scan->text + scan->at;
    if (*start == '\'' || *start == '"')
        return scan_text(scan, value);
    size_t len = number_length(start);
    if (!len)
        return scan_fail(scan, scan->at, "a value in quotes or a number");
    scan->at += len;
    return copy(scan, start, len, value);
}
