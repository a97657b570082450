/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/match.h"

#include "api/draw/names/readable_name.h"
#include "api/text/nearest.h"
#include "api/text/wildcard.h"

#include <stdlib.h>
#include <string.h>

static const char *name_of(const struct sonde_profile *profile, uint32_t function) {
    return sonde_profile_text(profile, sonde_profile_function(profile, function)->name);
}

static bool is_exactly(const struct sonde_profile *profile, uint32_t function, const char *name) {
    const struct sonde_function *item = sonde_profile_function(profile, function);
    return strcmp(sonde_profile_text(profile, item->name), name) == 0 ||
           strcmp(sonde_profile_text(profile, item->system_name), name) == 0;
}

static bool is_readable(const struct sonde_profile *profile, uint32_t function, const char *name) {
    struct sonde_buf readable = {0};
    const char *whole = name_of(profile, function);
    if (!strstr(whole, name)) /* cheap, and usual */
        return false;
    draw_readable_name(&readable, whole, false);
    size_t len = strlen(name);
    bool same = readable.data && strncmp(readable.data, name, len) == 0 &&
                (readable.data[len] == 0 || readable.data[len] == '(');
    sonde_buf_finish(&readable);
    return same;
}

static bool is_pattern(const struct sonde_profile *profile, uint32_t function, const char *name) {
    return strchr(name, '*') && sonde_wildcard_matches(name, name_of(profile, function));
}

bool match_is_exact(const struct sonde_profile *profile, const char *name) {
    for (uint32_t i = 1; i <= sonde_profile_function_count(profile); i++)
        if (is_exactly(profile, i, name))
            return true;
    return false;
}

bool *match_functions(const struct sonde_profile *profile, const char *name) {
    static bool (*const ways[])(const struct sonde_profile *, uint32_t,
                                const char *) = {is_exactly, is_readable, is_pattern};
    size_t count = sonde_profile_function_count(profile);
    bool *matches = calloc(count + 1, sizeof *matches), found = false;
    for (size_t way = 0; matches && way < sizeof ways / sizeof *ways && !found; way++)
        for (uint32_t i = 1; i <= count; i++)
            found |= matches[i] = ways[way](profile, i, name);
    return matches;
}

sonde_err match_refuse(const struct sonde_profile *profile, const char *name,
                       struct sonde_diag *diag) {
    size_t count = sonde_profile_function_count(profile);
    const char **names = calloc(count + 1, sizeof *names);
    for (uint32_t i = 1; names && i <= count; i++)
        names[i - 1] = name_of(profile, i);
    const char *near = names ? sonde_nearest(name, names, count) : NULL;
    free(names);
    if (near)
        return sonde_fail(diag, SONDE_NOT_FOUND,
                          "no sample is in a function called \"%.60s\"; did you mean \"%.60s\"?",
                          name, near);
    return sonde_fail(
        diag, SONDE_NOT_FOUND,
        "no sample is in a function called \"%.60s\"; `sonde top` lists the functions", name);
}
