/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/copy.h"
#include "api/profile/memory.h"

#include <string.h>

struct trim {
    struct profile_copy copy;
    sonde_memory_is_allocator *is_allocator;
    void *context;
    uint32_t note; /* the location "[allocator]"; 0 = not added yet */
};

bool sonde_memory_in_allocator_module(void *context, const struct sonde_profile *profile,
                                      const struct sonde_location *location) {
    static const char *const names[] = {"libjemalloc", "libtcmalloc", "libmimalloc", "libsonde"};
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
    const char *path = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static uint32_t count_leaves(const struct trim *trim, const struct sonde_sample *sample) {
    const struct sonde_profile *from = trim->copy.from;
    uint32_t count = 0;
    while (count < sample->location_count &&
           trim->is_allocator(trim->context, from,
                              sonde_profile_location(from, sample->locations[count])))
        count++;
    return count;
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
    uint32_t skip = count_leaves(trim, &sample);
    sonde_err err = profile_copy_sample(&trim->copy, index, skip, &copied);
    if (err)
        return err;
    if (skip > 0 && skip == sample.location_count) {
        err = trim->note ? SONDE_OK : make_note(trim);
        copied.locations[0] = trim->note;
        copied.sample.location_count = 1;
    }
    return err ? err : sonde_profile_add_sample(trim->copy.into, &copied.sample);
}

sonde_err sonde_memory_trim(const struct sonde_profile *profile,
                            sonde_memory_is_allocator *is_allocator, void *context,
                            struct sonde_profile **trimmed, struct sonde_diag *diag) {
    struct trim trim = {.is_allocator = is_allocator, .context = context};
    struct sonde_profile *into = profile_copy_empty(profile);
    *trimmed = NULL;
    if (!into)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = profile_copy_init(&trim.copy, into, profile);
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++)
        err = trim_sample(&trim, i);
    profile_copy_finish(&trim.copy);
    if (err) {
        sonde_profile_destroy(into);
        return sonde_fail(diag, err, "cannot remove the allocator's frames: %s",
                          sonde_diag_text(NULL, err));
    }
    *trimmed = into;
    return SONDE_OK;
}
