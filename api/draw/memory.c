/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/memory.h"
#include "api/draw/render.h"
#include "api/profile/heap/memory.h"

void draw_memory_estimate(const struct sonde_profile *profile, size_t type_index,
                          struct sonde_buf *out) {
    struct sonde_memory_pair pair;
    double samples = 0;
    if (!sonde_memory_pair(profile, type_index, &pair) || pair.period <= 1)
        return;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (sample.values[pair.space] < 0)
            return;
        samples += sonde_memory_sampled(&pair, &sample);
    }
    if (samples < 0.5 || samples > 9e15)
        return;
    sonde_buf_puts(out, "estimated from ");
    draw_grouped(out, (int64_t)(samples + 0.5));
    sonde_buf_printf(out, " samples (± %.1f %%), one per ",
                     100 * sonde_memory_relative_error(samples));
    draw_value(out, (int64_t)pair.period, "bytes");
}
