/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/wildcard.h"

#include <string.h>

bool sonde_wildcard_matches(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) { /* the last star takes one more character */
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == 0;
}
