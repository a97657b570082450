/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/processes.h"

#include "api/profile/copy.h"

#include <stdlib.h>
#include <string.h>

/* A sample and its process. */
struct place {
    int64_t pid;
    uint32_t function; /* of the outermost frame; 0 = that is code */
    uint32_t sample;
};

static int compare(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    return (a->sample > b->sample) - (a->sample < b->sample);
}

/* A process has no code. */
static uint32_t process_of(const struct sonde_profile *profile, const struct sonde_sample *sample) {
    if (sample->location_count == 0)
        return 0;
    const struct sonde_location *outermost =
        sonde_profile_location(profile, sample->locations[sample->location_count - 1]);
    bool is_process = !outermost->mapping && !outermost->address && outermost->line_count == 1;
    return is_process ? outermost->lines[0].function : 0;
}

static bool is_pid(const struct sonde_profile *profile, const struct sonde_label *label) {
    return !label->str && strcmp(sonde_profile_text(profile, label->key), "pid") == 0;
}

static int64_t pid_of(const struct sonde_profile *profile, const struct sonde_sample *sample) {
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (is_pid(profile, &sample->labels[i]))
            return sample->labels[i].num;
    return 0;
}

static void drop_pid(const struct sonde_profile *into, struct profile_copied_sample *copied) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < copied->sample.label_count; i++)
        if (!is_pid(into, &copied->labels[i]))
            copied->labels[kept++] = copied->labels[i];
    copied->sample.label_count = kept;
}

/* A machine has many mappings, and a process few of them. */
static sonde_err enter_mappings(struct profile_copy *copy, const struct sonde_sample *sample) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < sample->location_count && !err; i++) {
        uint32_t id = sonde_profile_location(copy->from, sample->locations[i])->mapping;
        if (id && !copy->mappings[id])
            err = profile_copy_mapping(copy, id);
    }
    return err;
}

static sonde_err add(struct profile_copy *copy, const struct place *place) {
    struct profile_copied_sample copied;
    const struct sonde_sample sample = sonde_profile_sample(copy->from, place->sample);
    sonde_err err = enter_mappings(copy, &sample);
    if (!err)
        err = profile_copy_sample(copy, place->sample, 0, 0, &copied);
    if (err)
        return err;
    drop_pid(copy->into, &copied);
    copied.sample.location_count -= place->function != 0;
    return sonde_profile_add_sample(copy->into, &copied.sample);
}

static sonde_err copy_places(const struct sonde_profile *profile, const struct place *places,
                             size_t count, struct sonde_profile **into) {
    struct profile_copy copy = {0};
    *into = profile_copy_empty(profile);
    sonde_err err = *into ? profile_copy_begin(&copy, *into, profile) : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++)
        err = add(&copy, &places[i]);
    profile_copy_finish(&copy);
    if (err) {
        sonde_profile_destroy(*into);
        *into = NULL;
    }
    return err;
}

static struct place *find_places(const struct sonde_profile *profile, size_t count) {
    struct place *places = calloc(count + 1, sizeof *places);
    for (size_t i = 0; places && i < count; i++) {
        const struct sonde_sample sample = sonde_profile_sample(profile, i);
        places[i] = (struct place){.pid = pid_of(profile, &sample),
                                   .function = process_of(profile, &sample),
                                   .sample = (uint32_t)i};
    }
    if (places)
        qsort(places, count, sizeof *places, compare);
    return places;
}

static const char *name_of(const struct sonde_profile *profile, uint32_t function) {
    return function ? sonde_profile_text(profile, sonde_profile_function(profile, function)->name)
                    : "";
}

sonde_err sonde_profile_split_processes(const struct sonde_profile *profile,
                                        sonde_err (*on_part)(void *context,
                                                             const struct sonde_process_part *part),
                                        void *context) {
    size_t count = sonde_profile_sample_count(profile);
    struct place *places = find_places(profile, count);
    sonde_err err = places ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t first = 0, end; first < count && !err; first = end) {
        struct sonde_process_part part = {.name = name_of(profile, places[first].function),
                                          .pid = places[first].pid};
        for (end = first + 1; end < count && places[end].pid == places[first].pid &&
                              places[end].function == places[first].function;)
            end++;
        err = copy_places(profile, places + first, end - first, &part.profile);
        if (!err)
            err = on_part(context, &part);
    }
    free(places);
    return err;
}
