/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/annotate/match.h"

#include "api/draw/names/readable_name.h"
#include "api/text/nearest.h"
#include "api/text/wildcard.h"

#include <stdlib.h>
#include <string.h>

#define SUGGESTIONS 4

static const char *name_of(const struct sonde_profile *profile, uint32_t function) {
    return sonde_profile_text(profile, sonde_profile_function(profile, function)->name);
}

static bool is_exactly(const struct sonde_profile *profile, uint32_t function, const char *name) {
    const struct sonde_function *item = sonde_profile_function(profile, function);
    return strcmp(sonde_profile_text(profile, item->name), name) == 0 ||
           strcmp(sonde_profile_text(profile, item->system_name), name) == 0;
}

typedef bool compare(const char *shown, const char *name);

static bool is_shown(const char *shown, const char *name) {
    size_t len = strlen(name);
    return strncmp(shown, name, len) == 0 && (shown[len] == 0 || shown[len] == '(');
}

static bool fits(const char *shown, const char *name) {
    return sonde_wildcard_matches(name, shown);
}

/* `sonde top` shows parameters if only they tell two functions apart. */
static bool compare_readable(const char *whole, compare *same, const char *name) {
    bool found = false;
    for (int with_parameters = 0; with_parameters < 2 && !found; with_parameters++) {
        struct sonde_buf readable = {0};
        draw_readable_name(&readable, whole, with_parameters != 0);
        found = readable.data && same(readable.data, name);
        sonde_buf_finish(&readable);
    }
    return found;
}

static bool is_readable(const struct sonde_profile *profile, uint32_t function, const char *name) {
    return compare_readable(name_of(profile, function), is_shown, name);
}

static bool is_pattern(const struct sonde_profile *profile, uint32_t function, const char *name) {
    const char *whole = name_of(profile, function);
    return strchr(name, '*') && (fits(whole, name) || compare_readable(whole, fits, name));
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

/* ---- suggestions ---- */

/* Readable names without parameters, each from malloc. */
static const char **make_names(const struct sonde_profile *profile) {
    size_t count = sonde_profile_function_count(profile);
    const char **names = calloc(count + 1, sizeof *names);
    for (uint32_t i = 1; names && i <= count; i++) {
        struct sonde_buf readable = {0};
        draw_readable_name(&readable, name_of(profile, i), false);
        char *parameters = readable.data ? strstr(readable.data, "(...)") : NULL;
        if (parameters && !strstr(parameters + 1, "(...)"))
            *parameters = 0;
        names[i - 1] = readable.data;
    }
    return names;
}

static bool is_among(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Writes "a, b". */
static void list_containing(const char *const *names, size_t count, const char *word,
                            struct sonde_buf *text) {
    const char *listed[SUGGESTIONS];
    uint32_t found = 0;
    for (size_t i = 0; i < count && found < SUGGESTIONS; i++) {
        if (!names[i] || !strstr(names[i], word) || is_among(listed, found, names[i]))
            continue;
        sonde_buf_printf(text, "%s%.60s", found > 0 ? ", " : "", names[i]);
        listed[found++] = names[i];
    }
}

static sonde_err suggest(const char *const *names, size_t count, const char *name,
                         struct sonde_diag *diag) {
    struct sonde_buf containing = {0};
    const char *near = sonde_nearest(name, names, count);
    sonde_err err = SONDE_OK;
    list_containing(names, count, name, &containing);
    if (near)
        err = sonde_fail(diag, SONDE_NOT_FOUND,
                         "no sample is in a function called \"%.60s\"; did you mean \"%.60s\"?",
                         name, near);
    else if (containing.len > 0)
        err = sonde_fail(diag, SONDE_NOT_FOUND,
                         "no sample is in a function called \"%.40s\"; some contain it: %s", name,
                         containing.data);
    sonde_buf_finish(&containing);
    return err;
}

sonde_err match_refuse(const struct sonde_profile *profile, const char *name,
                       struct sonde_diag *diag) {
    size_t count = sonde_profile_function_count(profile);
    const char **names = make_names(profile);
    sonde_err err = names ? suggest(names, count, name, diag) : SONDE_OK;
    for (size_t i = 0; names && i < count; i++)
        free((char *)names[i]);
    free(names);
    if (err)
        return err;
    return sonde_fail(
        diag, SONDE_NOT_FOUND,
        "no sample is in a function called \"%.60s\"; `sonde top` lists the functions", name);
}
