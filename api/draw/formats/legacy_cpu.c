/* SPDX-License-Identifier: Apache-2.0
 *
 * gperftools' CPU format, which jeprof needs for CPU time. It consists of 8-byte little-endian
 * words:
 *
 *     0 3 0 period_us 0    header
 *     count depth pc...    a stack, leaf first; readers decrement the addresses of callers
 *     0 1 0                trailer, then the mappings in the format of /proc/PID/maps */
#include "api/draw/formats/legacy.h"
#include "api/draw/render.h"
#include "api/profile/event.h"

#include <string.h>

static void put_word(struct sonde_buf *out, uint64_t word) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(word >> (8 * i));
    sonde_buf_append(out, bytes, sizeof bytes);
}

/* The sample type to write: counts if the profile has them, because the format has nothing else. */
static size_t count_type(const struct sonde_profile *profile, size_t otherwise) {
    if (sonde_event_counted_words(sonde_profile_type(profile, otherwise).type))
        return otherwise;
    for (size_t i = 0; i < sonde_profile_type_count(profile); i++)
        if (strcmp(sonde_profile_type(profile, i).unit, "count") == 0)
            return i;
    return otherwise;
}

static uint64_t period_us(const struct sonde_profile *profile) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    if (info->period < 1000 || strcmp(info->period_type.unit, "nanoseconds") != 0)
        return 1;
    return ((uint64_t)info->period + 500) / 1000;
}

/* Leaves out notes such as "[truncated]". A stack of notes only is written with the address 0, so
 * that the total stays the same. */
static void put_record(const struct sonde_profile *profile, const struct sonde_sample *sample,
                       int64_t count, struct sonde_buf *out) {
    uint64_t addresses[SONDE_PROFILE_MAX_DEPTH];
    uint32_t depth = draw_addresses(profile, sample, addresses);
    if (depth == 0)
        addresses[depth++] = 0;
    put_word(out, (uint64_t)count);
    put_word(out, depth);
    for (uint32_t i = 0; i < depth; i++)
        put_word(out, addresses[i]);
}

sonde_err draw_legacy_cpu(const struct sonde_profile *profile,
                          const struct sonde_draw_options *options, struct sonde_buf *out,
                          struct sonde_diag *diag) {
    const uint64_t header[] = {0, 3, 0, period_us(profile), 0}, trailer[] = {0, 1, 0};
    size_t type_index = count_type(profile, options->type_index);
    for (size_t i = 0; i < sizeof header / sizeof *header; i++)
        put_word(out, header[i]);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (sample.values[type_index] > 0)
            put_record(profile, &sample, sample.values[type_index], out);
    }
    for (size_t i = 0; i < sizeof trailer / sizeof *trailer; i++)
        put_word(out, trailer[i]);
    draw_maps(profile, out);
    return SONDE_OK;
}
