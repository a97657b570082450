/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/copy.h"
#include "api/profile/heap/allocator_names.h"
#include "api/profile/heap/memory.h"

#include <stdlib.h>

struct trim {
    struct profile_copy copy;
    sonde_memory_own_lines *own_lines;
    void *context;
    uint32_t *known; /* by location: its own lines + 1; 0 = not asked yet */
    uint32_t note;   /* the location "[allocator]"; 0 = not added yet */
};

uint32_t sonde_memory_of_library(void *context, const struct sonde_profile *profile,
                                 const struct sonde_location *location) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
    bool is_library =
        mapping && sonde_allocator_is_library(sonde_profile_text(profile, mapping->filename));
    return is_library ? SONDE_MEMORY_WHOLE : 0;
}

/* What was inlined into a function of the allocator is the allocator's, too. */
uint32_t sonde_memory_of_allocator(void *context, const struct sonde_profile *profile,
                                   const struct sonde_location *location) {
    const bool *built_in = context;
    uint32_t count = location->line_count;
    if (sonde_memory_of_library(NULL, profile, location))
        return SONDE_MEMORY_WHOLE;
    for (; count > 0; count--) {
        uint32_t function = location->lines[count - 1].function, name;
        name = sonde_profile_function(profile, function)->name;
        if (sonde_allocator_has_function(sonde_profile_text(profile, name), *built_in))
            break;
    }
    return count > 0 && count == location->line_count ? SONDE_MEMORY_WHOLE : count;
}

/* The number of lines of a sample's location that belong to the allocator. Each location is asked
 * for once, because many samples share it. */
static uint32_t count_own(const struct trim *trim, const struct sonde_sample *sample,
                          uint32_t index) {
    const struct sonde_profile *from = trim->copy.from;
    uint32_t id = sample->locations[index], own;
    if (trim->known[id])
        return trim->known[id] == SONDE_MEMORY_WHOLE ? SONDE_MEMORY_WHOLE : trim->known[id] - 1;
    own = trim->own_lines(trim->context, from, sonde_profile_location(from, id));
    trim->known[id] = own == SONDE_MEMORY_WHOLE ? own : own + 1;
    return own;
}

static sonde_err make_note(struct trim *trim) {
    static const char name[] = "[allocator]";
    struct sonde_profile *into = trim->copy.into;
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line, .kind = SONDE_FRAME_NOTE};
    sonde_err err = sonde_profile_string(into, name, sizeof name - 1, &function.name);
    function.system_name = function.name;
    if (!err)
        err = sonde_profile_add_function(into, &function, &line.function);
    return err ? err : sonde_profile_add_location(into, &location, &trim->note);
}

static sonde_err trim_sample(struct trim *trim, size_t index) {
    struct profile_copied_sample copied;
    struct sonde_sample sample = sonde_profile_sample(trim->copy.from, index);
    uint32_t skip = 0, lines = 0;
    while (skip < sample.location_count &&
           (lines = count_own(trim, &sample, skip)) == SONDE_MEMORY_WHOLE)
        skip++;
    lines = skip < sample.location_count ? lines : 0;
    sonde_err err = profile_copy_sample(&trim->copy, index, skip, lines, &copied);
    if (err)
        return err;
    if (skip > 0 && skip == sample.location_count) {
        err = trim->note ? SONDE_OK : make_note(trim);
        copied.locations[0] = trim->note;
        copied.sample.location_count = 1;
    }
    return err ? err : sonde_profile_add_sample(trim->copy.into, &copied.sample);
}

sonde_err sonde_memory_trim(const struct sonde_profile *profile, sonde_memory_own_lines *own_lines,
                            void *context, struct sonde_profile **trimmed,
                            struct sonde_diag *diag) {
    struct trim trim = {.own_lines = own_lines, .context = context};
    struct sonde_profile *into = profile_copy_empty(profile);
    *trimmed = NULL;
    if (!into)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = profile_copy_init(&trim.copy, into, profile);
    trim.known = calloc(sonde_profile_location_count(profile) + 1, sizeof *trim.known);
    if (!err && !trim.known)
        err = SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++)
        err = trim_sample(&trim, i);
    profile_copy_finish(&trim.copy);
    free(trim.known);
    if (err) {
        sonde_profile_destroy(into);
        return sonde_fail(diag, err, "cannot remove the allocator's frames: %s",
                          sonde_diag_text(NULL, err));
    }
    *trimmed = into;
    return SONDE_OK;
}
