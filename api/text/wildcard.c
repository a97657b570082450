/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/wildcard.h"

#include <string.h>

bool sonde_wildcard_matches(const char *pattern, const char *name) {
    size_t len = strcspn(pattern, "*");
    if (strncmp(pattern, name, len) != 0)
        return false;
    if (!pattern[len])
        return !name[len];
    const char *end = name + strlen(name);
    /* Each piece between stars takes its first place, and the last one the end. */
    for (name += len, pattern += len; *(pattern += strspn(pattern, "*")); pattern += len) {
        len = strcspn(pattern, "*");
        if (!pattern[len])
            return (size_t)(end - name) >= len && memcmp(end - len, pattern, len) == 0;
        name = memmem(name, (size_t)(end - name), pattern, len);
        if (!name)
            return false;
        name += len;
    }
    return true;
}
