/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions, by PCRE2: Perl's syntax, UTF-8, `$` is the end of the text. Invalid UTF-8 in
 * the subject matches nothing and does no harm. Compiled once; thread safety: any thread. */
#ifndef SONDE_SERVICE_STORE_SELECTOR_REGEXP_H
#define SONDE_SERVICE_STORE_SELECTOR_REGEXP_H

#include <stdbool.h>
#include <stddef.h>

struct regexp;

/* NULL if the pattern does not compile: *offset is the byte in the pattern and reason, of
 * reason_size bytes, says why. */
struct regexp *regexp_compile(const char *pattern, size_t *offset, char *reason,
                              size_t reason_size);
void regexp_destroy(struct regexp *regexp); /* NULL is fine */
/* Whether the expression matches somewhere in the text. False if it needs more than
 * SELECTOR_MATCH_LIMIT steps from one position. */
bool regexp_matches(const struct regexp *regexp, const char *text);

#endif
