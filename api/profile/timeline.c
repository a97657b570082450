/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/timeline.h"

#include "api/profile/copy.h"

#include <stdlib.h>
#include <string.h>

void sonde_timeline_destroy(struct sonde_timeline *timeline) {
    if (timeline)
        free(timeline->entries);
    free(timeline);
}

static int by_sample(const void *a, const void *b) {
    const struct sonde_timeline_entry *left = a, *right = b;
    if (left->sample != right->sample)
        return left->sample < right->sample ? -1 : 1;
    return (left->bin > right->bin) - (left->bin < right->bin);
}

void sonde_timeline_sort(struct sonde_timeline *timeline) {
    struct sonde_timeline_entry *entries = timeline->entries;
    size_t kept = 0;
    if (timeline->count > 1)
        qsort(entries, timeline->count, sizeof *entries, by_sample);
    for (size_t i = 0; i < timeline->count; i++) {
        if (kept > 0 && by_sample(&entries[kept - 1], &entries[i]) == 0)
            entries[kept - 1].count += entries[i].count;
        else
            entries[kept++] = entries[i];
    }
    timeline->count = kept;
}

struct sonde_timeline *sonde_timeline_dup(const struct sonde_timeline *timeline) {
    struct sonde_timeline *copy = calloc(1, sizeof *copy);
    size_t bytes = timeline->count * sizeof *copy->entries;
    if (!copy)
        return NULL;
    *copy = *timeline;
    copy->entries = malloc(bytes + 1);
    if (!copy->entries) {
        free(copy);
        return NULL;
    }
    if (bytes)
        memcpy(copy->entries, timeline->entries, bytes);
    return copy;
}

void sonde_profile_set_timeline(struct sonde_profile *profile, struct sonde_timeline *timeline) {
    sonde_timeline_destroy(profile->timeline);
    profile->timeline = timeline;
}

const struct sonde_timeline *sonde_profile_timeline(const struct sonde_profile *profile) {
    return profile->timeline;
}

/* ---- Ranges ---- */

struct bins {
    uint64_t first, end;
};

static struct bins bins_of(struct sonde_timeline_range range) {
    uint64_t end = ((uint64_t)range.until_ms + SONDE_TIMELINE_BIN_MS - 1) / SONDE_TIMELINE_BIN_MS;
    return (struct bins){range.from_ms / SONDE_TIMELINE_BIN_MS, range.until_ms ? end : UINT64_MAX};
}

/* What `count` of the sample's samples contribute to its value. */
static int64_t share(const struct sonde_sample *sample, size_t type, uint64_t count) {
    if (sample->values[0] <= 0)
        return 0;
    return (int64_t)((__int128)sample->values[type] * (int64_t)count / sample->values[0]);
}

void sonde_timeline_sum(const struct sonde_profile *profile, size_t type, uint32_t bin_ms,
                        struct sonde_timeline_range range, int64_t *values, size_t count) {
    const struct sonde_timeline *timeline = profile->timeline;
    struct bins bins = bins_of(range);
    uint32_t bins_per_value = bin_ms / SONDE_TIMELINE_BIN_MS;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct sonde_timeline_entry *entry = &timeline->entries[i];
        uint64_t index = (entry->bin - bins.first) / bins_per_value;
        if (entry->bin < bins.first || entry->bin >= bins.end || index >= count)
            continue;
        struct sonde_sample sample = sonde_profile_sample(profile, entry->sample);
        values[index] = profile_add(values[index], share(&sample, type, entry->count));
    }
}

static sonde_err add_part(struct profile_copy *copy, size_t index, uint64_t count) {
    struct profile_copied_sample copied;
    if (count == 0)
        return SONDE_OK;
    sonde_err err = profile_copy_sample(copy, index, 0, 0, &copied);
    if (err)
        return err;
    struct sonde_sample whole = sonde_profile_sample(copy->from, index);
    for (size_t type = 0; type < copy->from->type_count; type++)
        copied.values[type] = share(&whole, type, count);
    return sonde_profile_add_sample(copy->into, &copied.sample);
}

/* The entries of a sample follow each other. */
static sonde_err add_parts(struct profile_copy *copy, struct bins bins) {
    const struct sonde_timeline *timeline = copy->from->timeline;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < timeline->count && !err;) {
        uint32_t sample = timeline->entries[i].sample;
        uint64_t count = 0;
        for (; i < timeline->count && timeline->entries[i].sample == sample; i++)
            if (timeline->entries[i].bin >= bins.first && timeline->entries[i].bin < bins.end)
                count += timeline->entries[i].count;
        err = add_part(copy, sample, count);
    }
    return err;
}

static sonde_err describe(const struct sonde_profile *from, struct bins bins,
                          struct sonde_profile *cut) {
    const int64_t bin_ns = SONDE_TIMELINE_BIN_MS * 1000000ll;
    struct sonde_profile_info info = *sonde_profile_info(from);
    int64_t begin_ns = (int64_t)bins.first * bin_ns, whole_ns = info.duration_ns;
    int64_t end_ns =
        bins.end < (uint64_t)(whole_ns / bin_ns) ? (int64_t)bins.end * bin_ns : whole_ns;
    struct sonde_buf text = {0};
    sonde_buf_printf(&text, "range: %.2f s to %.2f s of %.2f s", (double)begin_ns / 1e9,
                     (double)end_ns / 1e9, (double)whole_ns / 1e9);
    sonde_err err = text.failed ? SONDE_OUT_OF_MEMORY : sonde_profile_add_comment(cut, text.data);
    sonde_buf_finish(&text);
    info.time_unix_ns += begin_ns;
    info.duration_ns = end_ns - begin_ns;
    sonde_profile_set_info(cut, &info);
    return err;
}

static sonde_err check_range(const struct sonde_profile *profile, struct sonde_timeline_range range,
                             struct sonde_diag *diag) {
    int64_t duration_ms = sonde_profile_info(profile)->duration_ns / 1000000;
    if ((range.until_ms == 0 || range.from_ms < range.until_ms) && range.from_ms < duration_ms)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "a range must begin before it ends and before the end of the capture "
                      "(%.2f s)",
                      (double)duration_ms / 1e3);
}

sonde_err sonde_timeline_cut(const struct sonde_profile *profile, struct sonde_timeline_range range,
                             struct sonde_profile **cut, struct sonde_diag *diag) {
    struct profile_copy copy = {0};
    *cut = NULL;
    sonde_err err = check_range(profile, range, diag);
    if (err)
        return err;
    struct sonde_profile *into = profile_copy_empty(profile);
    err = into ? profile_copy_init(&copy, into, profile) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = add_parts(&copy, bins_of(range));
    if (!err)
        err = describe(profile, bins_of(range), into);
    profile_copy_finish(&copy);
    if (err)
        sonde_profile_destroy(into);
    else
        *cut = into;
    return err;
}
