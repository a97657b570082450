/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/memory.h"
#include "api/draw/render.h"
#include "api/profile/memory.h"

bool draw_memory_pair(const struct sonde_profile *profile, size_t type_index,
                      struct draw_memory *memory) {
    struct sonde_memory_types types;
    if (!sonde_memory_types(profile, &types))
        return false;
    bool is_allocated = types.inuse_space == SONDE_PROFILE_NO_TYPE ||
                        (types.alloc_space != SONDE_PROFILE_NO_TYPE &&
                         (type_index == types.alloc_space || type_index == types.alloc_objects));
    memory->space = is_allocated ? types.alloc_space : types.inuse_space;
    memory->objects = is_allocated ? types.alloc_objects : types.inuse_objects;
    memory->period = sonde_memory_period(profile);
    return true;
}

void draw_memory_estimate(const struct sonde_profile *profile, size_t type_index,
                          struct sonde_buf *out) {
    struct draw_memory memory;
    double samples = 0;
    if (!draw_memory_pair(profile, type_index, &memory) || memory.period <= 1 ||
        memory.objects == SONDE_PROFILE_NO_TYPE)
        return;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        const int64_t *values = sonde_profile_sample(profile, i).values;
        if (values[memory.space] < 0 || values[memory.objects] < 0)
            return;
        samples += sonde_memory_samples((double)values[memory.objects],
                                        (double)values[memory.space], memory.period);
    }
    if (samples < 0.5 || samples > 9e15)
        return;
    sonde_buf_puts(out, "estimated from ");
    draw_grouped(out, (int64_t)(samples + 0.5));
    sonde_buf_printf(out, " samples (± %.1f %%), one per ",
                     100 * sonde_memory_relative_error(samples));
    draw_value(out, (int64_t)memory.period, "bytes");
}
