/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/formats/legacy.h"

uint32_t draw_addresses(const struct sonde_profile *profile, const struct sonde_sample *sample,
                        uint64_t addresses[SONDE_PROFILE_MAX_DEPTH]) {
    uint32_t depth = 0;
    for (uint32_t i = 0; i < sample->location_count; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample->locations[i]);
        if (location->kind == SONDE_FRAME_NOTE || location->address == 0)
            continue;
        addresses[depth] = location->address + (depth > 0);
        depth++;
    }
    return depth;
}

void draw_maps(const struct sonde_profile *profile, struct sonde_buf *out) {
    for (uint32_t id = 1; id <= sonde_profile_mapping_count(profile); id++) {
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, id);
        sonde_buf_printf(out, "%08llx-%08llx r-xp %08llx 00:00 0 %s\n",
                         (unsigned long long)mapping->start, (unsigned long long)mapping->limit,
                         (unsigned long long)mapping->offset,
                         sonde_profile_text(profile, mapping->filename));
    }
}
