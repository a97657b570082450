/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/leaks/sites.h"

#include "api/base/array.h"
#include "api/draw/names/readable_name.h"
#include "api/profile/heap/memory.h"

#include <stdlib.h>
#include <string.h>

/* What is called by the code that holds the memory: containers of C++ and Rust. */
static const char *const containers[] = {
    "std::", "__gnu_cxx::", "alloc::", "core::", "hashbrown::", "<alloc::", "<core::", "<std::",
};

void sites_init(struct sites *sites) {
    *sites = (struct sites){0};
    hash_index_init(&sites->index);
}

static void drop_callers(struct site *site) {
    for (size_t i = 0; i < SITES_CALLERS; i++) {
        free(site->callers[i]);
        site->callers[i] = NULL;
    }
}

void sites_finish(struct sites *sites) {
    for (size_t i = 0; i < sites->count; i++) {
        free(sites->items[i].name);
        drop_callers(&sites->items[i]);
    }
    free(sites->items);
    hash_index_finish(&sites->index);
}

/* ---- frames ---- */

/* A place in a sample's stack: the line of a location. */
struct place {
    uint32_t at, line;
};

static const char *name_of(const struct sonde_profile *profile, const struct sonde_sample *sample,
                           struct place place) {
    const struct sonde_location *location =
        sonde_profile_location(profile, sample->locations[place.at]);
    if (location->line_count > 0)
        return sonde_profile_text(
            profile, sonde_profile_function(profile, location->lines[place.line].function)->name);
    if (!location->mapping)
        return "[unknown]";
    const char *path =
        sonde_profile_text(profile, sonde_profile_mapping(profile, location->mapping)->filename);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* False: it was the outermost frame. */
static bool step_out(const struct sonde_profile *profile, const struct sonde_sample *sample,
                     struct place *place) {
    if (place->line + 1 < sonde_profile_location(profile, sample->locations[place->at])->line_count)
        place->line++;
    else if (place->at + 1 < sample->location_count)
        *place = (struct place){place->at + 1, 0};
    else
        return false;
    return true;
}

static bool begins_in_container(const char *name) {
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++)
        if (strncmp(name, containers[i], strlen(containers[i])) == 0)
            return true;
    return false;
}

/* Names of C++'s templates begin with the type that they return, which a readable name lacks. */
static bool is_container(const char *name) {
    if (!strstr(name, "std::") && !begins_in_container(name))
        return false;
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, false);
    bool begins = !readable.failed && begins_in_container(sonde_buf_slice(&readable).data);
    sonde_buf_finish(&readable);
    return begins;
}

static struct place find_place(const struct sonde_profile *profile,
                               const struct sonde_sample *sample) {
    struct place place = {0}, found = {0};
    while (is_container(name_of(profile, sample, place)))
        if (!step_out(profile, sample, &place))
            return found;
    return place;
}

/* ---- sites ---- */

static sonde_err find_site(struct sites *sites, const char *name, struct site **site) {
    uint32_t hash = hash_index_data(&sites->index, name, strlen(name)), number;
    struct hash_probe probe = hash_probe(hash);
    *site = NULL;
    while ((number = hash_index_next(&sites->index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(sites->items[number].name, name) == 0) {
            *site = &sites->items[number];
            return SONDE_OK;
        }
    if (sites->count == SITES_MAX) {
        sites->left_out++;
        return SONDE_OK;
    }
    if (!array_room(&sites->items, &sites->capacity, sites->count, 1))
        return SONDE_OUT_OF_MEMORY;
    struct site item = {.name = strdup(name)};
    if (!item.name || !hash_index_add(&sites->index, hash, (uint32_t)sites->count)) {
        free(item.name);
        return SONDE_OUT_OF_MEMORY;
    }
    *site = &sites->items[sites->count];
    sites->items[sites->count++] = item;
    return SONDE_OK;
}

static sonde_err take_callers(struct site *site, const struct sonde_profile *profile,
                              const struct sonde_sample *sample, struct place place) {
    drop_callers(site);
    for (size_t i = 0; i < SITES_CALLERS && step_out(profile, sample, &place); i++) {
        site->callers[i] = strdup(name_of(profile, sample, place));
        if (!site->callers[i])
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

static sonde_err add_sample(struct sites *sites, size_t block, const struct sonde_profile *profile,
                            const struct sonde_sample *sample, double bytes) {
    struct place place = find_place(profile, sample);
    struct site *site;
    sonde_err err = find_site(sites, name_of(profile, sample, place), &site);
    sites->totals[block] += bytes;
    if (err || !site)
        return err;
    site->values[block] += bytes;
    if (site->largest_block == block && bytes <= site->largest)
        return SONDE_OK;
    site->largest = bytes;
    site->largest_block = block;
    return take_callers(site, profile, sample, place);
}

sonde_err sites_add(struct sites *sites, size_t block, const struct sonde_profile *profile,
                    struct sonde_diag *diag) {
    struct sonde_profile *trimmed;
    bool built_in = false;
    size_t type = sonde_profile_find_type(profile, "inuse_space");
    if (type == SONDE_PROFILE_NO_TYPE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the answer has no live memory");
    sonde_err err =
        sonde_memory_trim(profile, sonde_memory_of_allocator, &built_in, &trimmed, diag);
    for (size_t i = 0; !err && i < sonde_profile_sample_count(trimmed); i++) {
        struct sonde_sample sample = sonde_profile_sample(trimmed, i);
        if (sample.location_count > 0)
            err = add_sample(sites, block, trimmed, &sample, (double)sample.values[type]);
    }
    sonde_profile_destroy(trimmed);
    return err;
}
