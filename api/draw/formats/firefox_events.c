/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline says how many of a sample's counts fell into which bin. The sample's value is divided
 * in that proportion. The parts are differences of rounded sums, so they add up to the value. */
#include "api/draw/formats/firefox.h"
#include "api/profile/timeline.h"

#include <stdlib.h>

static int compare_events(const void *a, const void *b) {
    const struct firefox_event *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->bin != y->bin)
        return x->bin < y->bin ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* The part of the sample's value that its first `counts` counts have. */
static int64_t part(const struct sonde_sample *sample, size_t type_index, uint64_t counts) {
    return (int64_t)((__int128)sample->values[type_index] * (__int128)counts / sample->values[0]);
}

static size_t fill(const struct sonde_profile *profile, size_t type_index,
                   const struct sonde_timeline *timeline, struct firefox_event *events) {
    uint64_t before = 0; /* counts of the sample's earlier entries */
    size_t count = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct sonde_timeline_entry *entry = &timeline->entries[i];
        struct sonde_sample sample = sonde_profile_sample(profile, entry->sample);
        if (i == 0 || entry->sample != timeline->entries[i - 1].sample)
            before = 0;
        if (sample.values[0] <= 0)
            continue;
        int64_t value =
            part(&sample, type_index, before + entry->count) - part(&sample, type_index, before);
        before += entry->count;
        if (value > 0)
            events[count++] =
                (struct firefox_event){.node = entry->sample, .bin = entry->bin, .value = value};
    }
    return count;
}

sonde_err firefox_events(const struct sonde_profile *profile, size_t type_index,
                         const uint32_t *leaves, const uint32_t *thread_of,
                         struct firefox_event **events, size_t *count) {
    const struct sonde_timeline *timeline = sonde_profile_timeline(profile);
    *events = NULL;
    *count = 0;
    if (!timeline || timeline->count == 0)
        return SONDE_OK;
    *events = calloc(timeline->count, sizeof **events);
    if (!*events)
        return SONDE_OUT_OF_MEMORY;
    *count = fill(profile, type_index, timeline, *events);
    for (size_t i = 0; i < *count; i++) {
        (*events)[i].node = leaves[(*events)[i].node];
        (*events)[i].thread = thread_of[(*events)[i].node];
    }
    qsort(*events, *count, sizeof **events, compare_events);
    return SONDE_OK;
}
