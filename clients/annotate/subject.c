/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations are grouped by the name of the function that contains their code, and by file. One
 * group is what the name means. A function that is only inlined has no code of its own: then the
 * group is that of the function that contains most of it. */
#include "clients/annotate/subject.h"

#include "api/base/array.h"
#include "api/hash_index.h"
#include "api/text/utf8.h"
#include "clients/annotate/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_GROUPS 64u

struct group {
    uint32_t name, path, build_id; /* string ids */
    int64_t total;
    size_t last_sample; /* the last that counted, plus 1 */
};

struct search {
    const struct sonde_profile *profile;
    const struct subject_name *wanted;
    const bool *matches;
    bool of_inlined;    /* groups of functions into which the wanted one is inlined */
    uint32_t *group_of; /* per location id: number + 1 */
    struct group *groups;
    uint32_t count, capacity;
    struct hash_index index; /* of groups */
    int64_t total;           /* of the samples that are in any of them */
};

/* ---- names ---- */

void subject_read_name(const struct sonde_profile *profile, const char *word,
                       struct subject_name *name) {
    const char *at = strrchr(word, '@');
    *name = (struct subject_name){.word = word};
    snprintf(name->name, sizeof name->name, "%s", word);
    if (!at || at == word || !at[1] || match_is_exact(profile, word))
        return;
    snprintf(name->name, sizeof name->name, "%.*s", (int)(at - word), word);
    char *end;
    uint64_t start = strncmp(at, "@0x", 3) == 0 ? strtoull(at + 3, &end, 16) : 0;
    if (start && *end == 0)
        name->start = start;
    else
        name->file = at + 1;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_wanted_file(const struct search *search, const struct sonde_mapping *mapping) {
    const char *file = search->wanted->file;
    if (!file)
        return true;
    return mapping &&
           (strcmp(base_name(sonde_profile_text(search->profile, mapping->filename)), file) == 0 ||
            strncmp(sonde_profile_text(search->profile, mapping->build_id), file, strlen(file)) ==
                0);
}

/* ---- groups ---- */

static bool is_wanted(const struct search *search, const struct sonde_location *location) {
    uint32_t last = location->line_count - 1;
    if (location->line_count == 0)
        return false;
    if (!search->of_inlined)
        return search->matches[location->lines[last].function];
    for (uint32_t i = 0; i < last; i++)
        if (search->matches[location->lines[i].function])
            return true;
    return false;
}

static bool is_same(const struct group *left, const struct group *right) {
    return left->name == right->name && left->path == right->path &&
           left->build_id == right->build_id;
}

static uint32_t known_group(const struct search *search, const struct group *item, uint32_t hash) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    do
        number = hash_index_next(&search->index, &probe);
    while (number != HASH_INDEX_NONE && !is_same(&search->groups[number], item));
    return number;
}

/* An inlined function may have any number of containers: only the largest is shown. */
static sonde_err add_group(struct search *search, const struct group *item, uint32_t hash,
                           struct sonde_diag *diag) {
    if (!search->of_inlined && search->count == SUBJECT_MAX_GROUPS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "\"%.40s\" means more than %u functions: add to the name, or name one as "
                          "FUNCTION@FILE",
                          search->wanted->word, SUBJECT_MAX_GROUPS);
    if (!array_room(&search->groups, &search->capacity, search->count, 1) ||
        !hash_index_add(&search->index, hash, search->count))
        return SONDE_OUT_OF_MEMORY;
    search->groups[search->count++] = *item;
    return SONDE_OK;
}

/* Sets *number to the group's + 1, 0 = of a file that is not wanted. */
static sonde_err find_group(struct search *search, const struct sonde_location *location,
                            uint32_t *number, struct sonde_diag *diag) {
    const struct sonde_profile *profile = search->profile;
    const struct sonde_mapping *mapping =
        location->mapping ? sonde_profile_mapping(profile, location->mapping) : NULL;
    const struct sonde_line *outermost = &location->lines[location->line_count - 1];
    struct group item = {.name = sonde_profile_function(profile, outermost->function)->name,
                         .path = mapping ? mapping->filename : 0,
                         .build_id = mapping ? mapping->build_id : 0};
    *number = 0;
    if (!is_wanted_file(search, mapping))
        return SONDE_OK;
    uint32_t hash =
        hash_index_words(&search->index, (uint64_t)item.name << 32 | item.path, item.build_id);
    uint32_t known = known_group(search, &item, hash);
    *number = (known == HASH_INDEX_NONE ? search->count : known) + 1;
    return known == HASH_INDEX_NONE ? add_group(search, &item, hash, diag) : SONDE_OK;
}

static void count_sample(struct search *search, size_t index, size_t type) {
    struct sonde_sample sample = sonde_profile_sample(search->profile, index);
    bool is_in = false;
    for (uint32_t i = 0; i < sample.location_count; i++) {
        uint32_t number = search->group_of[sample.locations[i]];
        if (number == 0)
            continue;
        struct group *group = &search->groups[number - 1];
        group->total += group->last_sample != index + 1 ? sample.values[type] : 0;
        group->last_sample = index + 1;
        is_in = true;
    }
    search->total += is_in ? sample.values[type] : 0;
}

static sonde_err collect(struct search *search, size_t type, struct sonde_diag *diag) {
    const struct sonde_profile *profile = search->profile;
    size_t locations = sonde_profile_location_count(profile);
    sonde_err err = SONDE_OK;
    search->count = 0;
    search->total = 0;
    hash_index_clear(&search->index);
    for (uint32_t i = 1; i <= locations && !err; i++) {
        const struct sonde_location *location = sonde_profile_location(profile, i);
        search->group_of[i] = 0;
        if (is_wanted(search, location))
            err = find_group(search, location, &search->group_of[i], diag);
    }
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++)
        count_sample(search, i, type);
    return err;
}

static uint32_t largest(const struct search *search) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < search->count; i++)
        if (search->groups[i].total > search->groups[best].total)
            best = i;
    return best;
}

static sonde_err refuse_several(const struct search *search, double whole,
                                struct sonde_buf *choices, struct sonde_diag *diag) {
    sonde_buf_printf(choices, "%8s  FUNCTION@FILE\n", "TOTAL");
    for (uint32_t i = 0; i < search->count && i < LISTED_GROUPS; i++) {
        const struct group *group = &search->groups[i];
        const char *path = sonde_profile_text(search->profile, group->path);
        const char *build_id = sonde_profile_text(search->profile, group->build_id);
        sonde_buf_printf(choices, "%7.2f%%  ", 100.0 * (double)group->total / whole);
        sonde_utf8_put(choices, sonde_profile_text(search->profile, group->name), '?');
        sonde_buf_putc(choices, '@');
        sonde_utf8_put(choices, *path ? base_name(path) : "?", '?');
        sonde_buf_printf(choices, *build_id ? "  (build-id %.12s)\n" : "\n", build_id);
    }
    if (search->count > LISTED_GROUPS)
        sonde_buf_printf(choices, "%8s  %u more\n", "", search->count - LISTED_GROUPS);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "\"%.60s\" means %u functions: name one of them as FUNCTION@FILE, or as "
                      "FUNCTION@BUILD-ID",
                      search->wanted->word, search->count);
}

/* ---- the subject ---- */

static sonde_err take(const struct sonde_profile *profile, const struct group *group,
                      struct subject *subject) {
    size_t locations = sonde_profile_location_count(profile);
    subject->name = sonde_profile_text(profile, group->name);
    subject->path = sonde_profile_text(profile, group->path);
    subject->build_id = sonde_profile_text(profile, group->build_id);
    subject->address_of = calloc(locations + 1, sizeof *subject->address_of);
    subject->locations = calloc(locations + 1, sizeof *subject->locations);
    if (!subject->address_of || !subject->locations)
        return SONDE_OUT_OF_MEMORY;
    /* For a container, count all of its code, not only the inlined function's. */
    for (uint32_t i = 1; i <= locations; i++) {
        const struct sonde_location *at = sonde_profile_location(profile, i);
        const struct sonde_mapping *mapping =
            at->mapping ? sonde_profile_mapping(profile, at->mapping) : NULL;
        if (at->line_count == 0 || (mapping ? mapping->filename : 0) != group->path ||
            (mapping ? mapping->build_id : 0) != group->build_id ||
            sonde_profile_function(profile, at->lines[at->line_count - 1].function)->name !=
                group->name)
            continue;
        subject->locations[subject->count++] = i;
        subject->address_of[i] = subject->count;
    }
    return SONDE_OK;
}

static sonde_err search_all(struct search *search, struct subject *subject,
                            struct sonde_buf *choices, struct sonde_diag *diag) {
    struct group container = {0};
    search->of_inlined = true;
    sonde_err err = collect(search, subject->type, diag);
    bool is_inlined = search->count > 0;
    if (is_inlined)
        container = search->groups[largest(search)];
    subject->inlined_elsewhere = search->total;
    search->of_inlined = false;
    if (!err)
        err = collect(search, subject->type, diag);
    if (err)
        return err;
    if (search->count > 1)
        return refuse_several(search, subject_whole(subject), choices, diag);
    if (search->count == 0 && !is_inlined)
        return match_refuse(search->profile, search->wanted->name, diag);
    subject->is_container = search->count == 0;
    return take(search->profile, subject->is_container ? &container : search->groups, subject);
}

sonde_err subject_find(const struct sonde_profile *profile, size_t type,
                       const struct subject_name *name, struct subject *subject,
                       struct sonde_buf *choices, struct sonde_diag *diag) {
    struct search search = {.profile = profile, .wanted = name};
    *subject = (struct subject){.profile = profile, .type = type};
    if (match_is_anything(name->name))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "\"%.60s\" means every function: add a part of the name", name->word);
    bool *matches = match_functions(profile, name->name);
    search.matches = matches;
    hash_index_init(&search.index);
    search.group_of = calloc(sonde_profile_location_count(profile) + 1, sizeof *search.group_of);
    sonde_err err = matches && search.group_of ? search_all(&search, subject, choices, diag)
                                               : SONDE_OUT_OF_MEMORY;
    free(matches);
    free(search.group_of);
    free(search.groups);
    hash_index_finish(&search.index);
    return err;
}

void subject_finish(struct subject *subject) {
    free(subject->address_of);
    free(subject->locations);
    *subject = (struct subject){0};
}

double subject_whole(const struct subject *subject) {
    int64_t total = sonde_profile_total(subject->profile, subject->type);
    return total > 0 ? (double)total : 1;
}
