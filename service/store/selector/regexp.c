/* SPDX-License-Identifier: Apache-2.0
 *
 * PCRE2 without its JIT: the interpreter obeys all limits, and sonded needs no memory that is
 * writable and executable. struct regexp is pcre2_code under another name. */
#include "service/store/selector/regexp.h"

#include "service/store/selector/selector.h"

#include <pcre2.h>
#include <string.h>

#define DEPTH_LIMIT 2000 /* nested backtracking points */
#define HEAP_KIB    1024 /* for them, per match */
#define NEST_LIMIT  32   /* parentheses in parentheses */

static pcre2_code *compile(const char *pattern, pcre2_compile_context *context, size_t *offset,
                           char *reason, size_t reason_size) {
    int error;
    pcre2_set_parens_nest_limit(context, NEST_LIMIT);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern),
                                     PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY |
                                         PCRE2_NEVER_BACKSLASH_C,
                                     &error, offset, context);
    if (!code)
        pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, reason_size);
    return code;
}

struct regexp *regexp_compile(const char *pattern, size_t *offset, char *reason,
                              size_t reason_size) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    pcre2_code *code = NULL;
    *offset = 0;
    if (reason_size > 0)
        reason[0] = 0;
    if (context)
        code = compile(pattern, context, offset, reason, reason_size);
    pcre2_compile_context_free(context);
    return (struct regexp *)code;
}

void regexp_destroy(struct regexp *regexp) {
    pcre2_code_free((pcre2_code *)regexp);
}

bool regexp_matches(const struct regexp *regexp, const char *text) {
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int found = PCRE2_ERROR_NOMEMORY;
    if (context && data) {
        pcre2_set_match_limit(context, SELECTOR_MATCH_LIMIT);
        pcre2_set_depth_limit(context, DEPTH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_KIB);
        found = pcre2_match((const pcre2_code *)regexp, (PCRE2_SPTR)text, strlen(text), 0, 0, data,
                            context);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    return found >= 0;
}
