/* SPDX-License-Identifier: Apache-2.0
 *
 * A location of the original becomes a run of locations, one per function, which have no address
 * and no line. Of the labels only the thread is kept. */
#include "api/profile/copy.h"
#include "api/profile/diff/match.h"

#include <stdlib.h>
#include <string.h>

struct plain {
    struct profile_copy copy;
    uint32_t *first; /* by location: index in ids of its first one, one extra at the end */
    uint32_t *ids;   /* leaf first */
    bool merges_threads;
};

static sonde_err add_function(struct plain *plain, uint32_t id, uint32_t *new_id) {
    const struct sonde_function *function = sonde_profile_function(plain->copy.from, id);
    const char *name = sonde_profile_text(plain->copy.from, function->name);
    struct sonde_function bare = {0};
    if (!name[0])
        name = sonde_profile_text(plain->copy.from, function->system_name);
    sonde_err err = sonde_profile_string(plain->copy.into, name, strlen(name), &bare.name);
    bare.system_name = bare.name;
    return err ? err : sonde_profile_add_function(plain->copy.into, &bare, new_id);
}

static sonde_err add_line(struct plain *plain, const struct sonde_location *location,
                          const struct sonde_line *line, uint32_t *new_id) {
    struct sonde_line bare = {0};
    struct sonde_location added = {.mapping = plain->copy.mappings[location->mapping],
                                   .line_count = 1,
                                   .kind = location->kind,
                                   .lines = &bare};
    sonde_err err = add_function(plain, line->function, &bare.function);
    return err ? err : sonde_profile_add_location(plain->copy.into, &added, new_id);
}

/* A location without names stays as it is. */
static sonde_err add_location(struct plain *plain, uint32_t id, uint32_t *count) {
    const struct sonde_location *location = sonde_profile_location(plain->copy.from, id);
    sonde_err err = SONDE_OK;
    plain->first[id] = *count;
    if (location->line_count == 0)
        return profile_copy_location(&plain->copy, id, &plain->ids[(*count)++]);
    for (uint32_t i = 0; i < location->line_count && !err; i++)
        err = add_line(plain, location, &location->lines[i], &plain->ids[(*count)++]);
    return err;
}

static sonde_err add_locations(struct plain *plain) {
    const struct sonde_profile *from = plain->copy.from;
    uint32_t locations = from->locations.count, count = 0;
    size_t lines = 0;
    for (uint32_t id = 1; id <= locations; id++)
        lines += sonde_profile_location(from, id)->line_count + 1;
    plain->first = calloc(locations + 2, sizeof *plain->first);
    plain->ids = calloc(lines + 1, sizeof *plain->ids);
    sonde_err err = plain->first && plain->ids ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= locations && !err; id++)
        err = add_location(plain, id, &count);
    if (!err)
        plain->first[locations + 1] = count;
    return err;
}

/* Keeps the name of the thread, or its number if it has no name. */
static void keep_thread(const struct sonde_profile *into, struct sonde_sample *sample,
                        struct sonde_label *labels) {
    uint32_t kept = 0;
    const char *wanted = sonde_sample_label(into, sample, "thread")[0] ? "thread" : "tid";
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (strcmp(sonde_profile_text(into, labels[i].key), wanted) == 0)
            labels[kept++] = labels[i];
    sample->label_count = kept;
}

static sonde_err add_sample(struct plain *plain, size_t index) {
    struct sonde_sample sample = sonde_profile_sample(plain->copy.from, index);
    struct profile_copied_sample copied;
    sonde_err err = profile_copy_sample(&plain->copy, index, sample.location_count, 0, &copied);
    uint32_t count = 0;
    for (uint32_t i = 0; i < sample.location_count; i++) {
        uint32_t id = sample.locations[i];
        for (uint32_t at = plain->first[id];
             at < plain->first[id + 1] && count < SONDE_PROFILE_MAX_DEPTH; at++)
            copied.locations[count++] = plain->ids[at];
    }
    copied.sample.location_count = count;
    if (plain->merges_threads)
        copied.sample.label_count = 0;
    else
        keep_thread(plain->copy.into, &copied.sample, copied.labels);
    return err ? err : sonde_profile_add_sample(plain->copy.into, &copied.sample);
}

sonde_err profile_by_function(const struct sonde_profile *profile, bool merge_threads,
                              struct sonde_profile **copy) {
    struct plain plain = {.merges_threads = merge_threads};
    struct sonde_profile *into = profile_copy_empty(profile);
    *copy = NULL;
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_init(&plain.copy, into, profile);
    if (!err)
        err = add_locations(&plain);
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++)
        err = add_sample(&plain, i);
    profile_copy_finish(&plain.copy);
    free(plain.first);
    free(plain.ids);
    if (err)
        sonde_profile_destroy(into);
    else
        *copy = into;
    return err;
}
