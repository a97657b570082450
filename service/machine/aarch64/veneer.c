/* SPDX-License-Identifier: Apache-2.0
 *
 * Linkers put a veneer between a call and a function that is out of its reach, or that has no
 * landing pad. GNU ld names it __NAME_veneer, lld by the kind of its code and the name. */
#include "service/machine/aarch64/aarch64.h"

#include <string.h>

static const char *const prefixes[] = {"__AArch64ADRPThunk_", "__AArch64AbsLongThunk_",
                                       "__AArch64AbsXOLongThunk_", "__AArch64BTIThunk_"};
static const char *const suffixes[] = {"_bti_veneer", "_veneer"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

bool aarch64_find_veneer_target(const char *name, const char **target, size_t *len) {
    if (name[0] != '_' || name[1] != '_')
        return false;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        size_t prefix = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], prefix) != 0)
            continue;
        *target = name + prefix;
        *len = strlen(*target);
        return *len > 0;
    }
    size_t whole = strlen(name);
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        size_t suffix = strlen(suffixes[i]);
        if (whole <= 2 + suffix || strcmp(name + whole - suffix, suffixes[i]) != 0)
            continue;
        *target = name + 2;
        *len = whole - 2 - suffix;
        return true;
    }
    return false;
}
