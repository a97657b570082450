/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/annotate/match.h"

#include "api/draw/names/name_match.h"
#include "api/draw/names/readable_name.h"
#include "api/text/nearest.h"

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

/* Functions of several files have one name, so fits are kept by the name's string id, plus 1; 0 =
 * unknown. */
static enum draw_fit fit(const struct sonde_profile *profile, uint32_t function,
                         const struct draw_typed *typed, unsigned char *kept) {
    uint32_t name = sonde_profile_function(profile, function)->name;
    if (is_exactly(profile, function, typed->name))
        return DRAW_FIT_EXACT;
    if (!kept[name])
        kept[name] = (unsigned char)(draw_typed_fit(typed, name_of(profile, function)) + 1);
    return (enum draw_fit)(kept[name] - 1);
}

bool match_is_anything(const char *name) {
    struct sonde_buf pattern = {0};
    draw_name_pattern(&pattern, name);
    const char *text = sonde_buf_slice(&pattern).data;
    bool is_anything = pattern.len > 0 && strspn(text, "*") == pattern.len;
    sonde_buf_finish(&pattern);
    return is_anything;
}

bool match_is_exact(const struct sonde_profile *profile, const char *name) {
    for (uint32_t i = 1; i <= sonde_profile_function_count(profile); i++)
        if (is_exactly(profile, i, name))
            return true;
    return false;
}

bool *match_functions(const struct sonde_profile *profile, const char *name) {
    size_t count = sonde_profile_function_count(profile);
    bool *matches = calloc(count + 1, sizeof *matches);
    unsigned char *kept = calloc(sonde_profile_string_count(profile) + 1, sizeof *kept);
    enum draw_fit best = DRAW_FIT_NONE;
    struct draw_typed typed;
    draw_typed_init(&typed, name);
    for (uint32_t i = 1; matches && kept && i <= count; i++) {
        enum draw_fit found = fit(profile, i, &typed, kept);
        if (found > best)
            memset(matches, 0, (count + 1) * sizeof *matches);
        best = found > best ? found : best;
        matches[i] = found && found == best;
    }
    if (!kept) {
        free(matches);
        matches = NULL;
    }
    free(kept);
    draw_typed_finish(&typed);
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
