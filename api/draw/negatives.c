/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/negatives.h"

#include <stddef.h>

static int64_t add_magnitude(int64_t sum, int64_t value) {
    int64_t magnitude = value == INT64_MIN ? INT64_MAX : value < 0 ? -value : value;
    return sum > INT64_MAX - magnitude ? INT64_MAX : sum + magnitude;
}

int64_t draw_magnitude(const struct sonde_profile *profile, size_t type_index) {
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++)
        sum = add_magnitude(sum, sonde_profile_sample(profile, i).values[type_index]);
    return sum;
}

/* NULL: the format is the profile itself. */
static const char *effect_of(enum sonde_format format) {
    switch (format) {
    case SONDE_FORMAT_PPROF:
    case SONDE_FORMAT_JEMALLOC:
    case SONDE_FORMAT_UNSPECIFIED:
        return NULL;
    case SONDE_FORMAT_SVG_FLAMEGRAPH:
    case SONDE_FORMAT_SVG_CALLGRAPH:
    case SONDE_FORMAT_SPEEDSCOPE:
    case SONDE_FORMAT_FIREFOX:
    case SONDE_FORMAT_HEAPSNAPSHOT:
    case SONDE_FORMAT_HEAPPROFILE:
        return ", counted as 0";
    case SONDE_FORMAT_TEXT_TOP:
    case SONDE_FORMAT_MARKDOWN:
        return "; percentages are shares of the sum without signs";
    case SONDE_FORMAT_COLLAPSED:
    case SONDE_FORMAT_LEGACY_CPU:
    case SONDE_FORMAT_LEGACY_HEAP:
    case SONDE_FORMAT_GRAFANA:
    case SONDE_FORMAT_DEEPFLOW_TREE:
    case SONDE_FORMAT_DEEPFLOW_COLUMNAR:
    case SONDE_FORMAT_CHANGES:
    case SONDE_FORMAT_FLAMEBEARER:
        return ", left out by many readers";
    }
    return NULL;
}

void draw_put_negatives(struct sonde_buf *out, const struct sonde_profile *profile,
                        enum sonde_format format, const struct sonde_draw_options *options) {
    const char *effect = options->comparison ? NULL : effect_of(format);
    size_t count = 0;
    if (options->palette == SONDE_PALETTE_DIFF || !effect)
        return;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++)
        count += sonde_profile_sample(profile, i).values[options->type_index] < 0;
    if (count)
        sonde_buf_printf(out, "%zu %s%s", count,
                         count == 1 ? "stack has a negative value" : "stacks have negative values",
                         effect);
}
