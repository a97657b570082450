/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/only_process.h"

/* The function of a frame that is a process: it has no code. 0 = the location is something else. */
static uint32_t process_of(const struct sonde_profile *profile, uint32_t id) {
    const struct sonde_location *location = sonde_profile_location(profile, id);
    if (location->mapping || location->address || location->line_count != 1)
        return 0;
    uint32_t function = location->lines[0].function;
    const char *name = sonde_profile_text(profile, sonde_profile_function(profile, function)->name);
    return name[0] != '[' ? function : 0; /* not a note */
}

uint32_t sonde_profile_only_process(const struct sonde_profile *profile) {
    uint32_t process = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        uint32_t found = sample.location_count
                             ? process_of(profile, sample.locations[sample.location_count - 1])
                             : 0;
        if (found == 0 || (process && found != process))
            return 0;
        process = found;
    }
    return process;
}
