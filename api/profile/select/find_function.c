/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/find_function.h"

#include "api/text/wildcard.h"

#include <stdlib.h>

static bool has_function(const struct sonde_profile *profile, const struct sonde_location *location,
                         const char *pattern) {
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct sonde_function *function =
            sonde_profile_function(profile, location->lines[i].function);
        if (sonde_wildcard_matches(pattern, sonde_profile_text(profile, function->name)))
            return true;
    }
    return false;
}

bool *sonde_profile_find_function(const struct sonde_profile *profile, const char *pattern) {
    size_t locations = sonde_profile_location_count(profile);
    size_t samples = sonde_profile_sample_count(profile);
    bool *is_found = calloc(locations + 1, sizeof *is_found);
    bool *is_on_stack = calloc(samples + 1, sizeof *is_on_stack);
    if (!is_found || !is_on_stack) {
        free(is_found);
        free(is_on_stack);
        return NULL;
    }
    for (uint32_t id = 1; id <= locations; id++)
        is_found[id] = has_function(profile, sonde_profile_location(profile, id), pattern);
    for (size_t i = 0; i < samples; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        for (uint32_t k = 0; k < sample.location_count && !is_on_stack[i]; k++)
            is_on_stack[i] = is_found[sample.locations[k]];
    }
    free(is_found);
    return is_on_stack;
}
