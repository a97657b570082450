/* SPDX-License-Identifier: Apache-2.0
 *
 * Words, names and values of a selector's text, one after the other. Blanks before them are
 * skipped. The functions that return bool take what they name only if it comes next. Errors are
 * SONDE_INVALID_ARGUMENT with the byte offset and what was expected, or SONDE_OUT_OF_MEMORY. Thread
 * safety: one thread at a time per scan. */
#ifndef SONDE_SERVICE_STORE_SELECTOR_SCAN_H
#define SONDE_SERVICE_STORE_SELECTOR_SCAN_H

#include "api/bytes.h"
#include "api/error.h"

struct scan {
    const char *text; /* NUL-terminated, valid UTF-8 */
    size_t at;
    struct sonde_arena *arena; /* of names and values */
    struct sonde_diag *diag;   /* may be NULL */
};

SONDE_MUST_USE sonde_err scan_fail(const struct scan *scan, size_t at, const char *what);
bool scan_end(struct scan *scan);
/* Punctuation. */
bool scan_take(struct scan *scan, const char *token);
/* A whole word, in upper or lower case. */
bool scan_word(struct scan *scan, const char *word);
/* pod_ns, k8s.label.app or, in back-quotes, any text. AND, OR, NOT, IN, LIKE and REGEXP are names
 * only in back-quotes. */
SONDE_MUST_USE sonde_err scan_name(struct scan *scan, const char **name);
/* A text in single or double quotes: the quote itself is written twice or after a backslash, a
 * backslash may be written twice, and before any other character it stays. */
SONDE_MUST_USE sonde_err scan_text(struct scan *scan, const char **value);
/* The same, or a decimal number, which stays as it is written. */
SONDE_MUST_USE sonde_err scan_value(struct scan *scan, const char **value);

#endif
