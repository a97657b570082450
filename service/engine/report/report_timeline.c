/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report.h"

#include "api/profile/timeline.h"

#include <stdlib.h>

/* A record may be a moment younger than the end of the window. */
static uint32_t last_bin(const struct report_input *input) {
    int64_t ran_ns = input->metadata.end_unix_ns - input->metadata.start_unix_ns;
    return ran_ns > 0 ? (uint32_t)((ran_ns - 1) / (SONDE_TIMELINE_BIN_MS * 1000000)) : 0;
}

sonde_err report_add_timeline(const struct report_input *input, uint32_t *const *sample_of,
                              struct sonde_profile *profile) {
    const struct time_bins *bins = &input->bins;
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return SONDE_OUT_OF_MEMORY;
    timeline->is_dropped = bins->is_full;
    timeline->entries = malloc(bins->used * sizeof *timeline->entries + 1);
    if (!timeline->entries) {
        sonde_timeline_destroy(timeline);
        return SONDE_OUT_OF_MEMORY;
    }
    uint32_t last = last_bin(input);
    for (uint32_t i = 0; i < bins->used; i++) {
        const struct time_bin *item = &bins->items[i];
        timeline->entries[timeline->count++] =
            (struct sonde_timeline_entry){.sample = sample_of[item->part][item->entry],
                                          .bin = item->bin < last ? item->bin : last,
                                          .count = item->count};
    }
    sonde_timeline_sort(timeline);
    sonde_profile_set_timeline(profile, timeline);
    return SONDE_OK;
}
