/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/time_parts.h"

static uint32_t round_to_bin(uint64_t ms) {
    return (uint32_t)(ms / SONDE_TIMELINE_BIN_MS * SONDE_TIMELINE_BIN_MS);
}

static sonde_err cut(const struct sonde_profile *profile, uint32_t from_ms, uint32_t length_ms,
                     size_t count, struct sonde_time_parts *parts, struct sonde_diag *diag) {
    for (size_t i = 0; i < count; i++) {
        struct sonde_profile *part;
        const struct sonde_timeline_range range = {
            from_ms + round_to_bin((uint64_t)length_ms * i / count),
            from_ms +
                (i + 1 < count ? round_to_bin((uint64_t)length_ms * (i + 1) / count) : length_ms)};
        sonde_err err = sonde_timeline_cut(profile, range, &part, diag);
        if (err)
            return err;
        parts->profiles[i] = part;
        parts->exposures[i] = (double)(range.until_ms - range.from_ms) / length_ms;
        parts->count = i + 1;
    }
    return SONDE_OK;
}

sonde_err sonde_time_parts_cut(const struct sonde_profile *profile,
                               struct sonde_timeline_range range, struct sonde_time_parts *parts,
                               struct sonde_diag *diag) {
    const struct sonde_timeline *timeline = sonde_profile_timeline(profile);
    int64_t end_ms = sonde_profile_info(profile)->duration_ns / 1000000;
    uint32_t from_ms = round_to_bin(range.from_ms);
    *parts = (struct sonde_time_parts){.count = 0};
    if (range.until_ms && range.until_ms < end_ms)
        end_ms = range.until_ms;
    if (!timeline || timeline->is_dropped || end_ms <= from_ms || end_ms > UINT32_MAX)
        return SONDE_OK;
    uint32_t length_ms = (uint32_t)(end_ms - from_ms);
    size_t count = length_ms / SONDE_TIME_PART_MS;
    if (count > SONDE_TIME_PARTS)
        count = SONDE_TIME_PARTS;
    return count < SONDE_TIME_PARTS_MIN ? SONDE_OK
                                        : cut(profile, from_ms, length_ms, count, parts, diag);
}

void sonde_time_parts_finish(struct sonde_time_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        sonde_profile_destroy((struct sonde_profile *)parts->profiles[i]);
    parts->count = 0;
}

struct sonde_blocks_side sonde_time_parts_side(const struct sonde_time_parts *parts,
                                               const struct sonde_profile *const *whole,
                                               double scale) {
    if (!parts || parts->count < SONDE_TIME_PARTS_MIN)
        return (struct sonde_blocks_side){whole, 1, scale, NULL, NULL};
    return (struct sonde_blocks_side){parts->profiles, parts->count, scale, parts->exposures,
                                      *whole};
}
