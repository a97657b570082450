/* SPDX-License-Identifier: Apache-2.0
 *
 * gperftools' heap format, which jeprof and `go tool pprof` read:
 *
 *     heap profile: 3: 4096 [0: 0] @ heap_v2/524288
 *     1: 64 [0: 0] @ 0x4011 0x5013         live objects: bytes [all], stack leaf first
 *
 *     MAPPED_LIBRARIES:
 *     00400000-00500000 r-xp 00000000 00:00 0 /usr/bin/server
 *
 * Readers treat the numbers as samples and multiply each line by 1 / (1 - exp(-mean / R)). The
 * profile has the products, so each line is divided by that factor. Numbers in the file are whole,
 * and the rounding error of a line, less than one sample, is carried over to the next line, so that
 * the total stays the same. */
#include "api/draw/formats/legacy.h"
#include "api/draw/render.h"
#include "api/profile/heap/memory.h"

#include <math.h>

struct rebias {
    size_t objects, space; /* sample types; SONDE_PROFILE_NO_TYPE = write 0 */
    double period, carry;  /* carry: bytes of the profile that no line has yet */
    int64_t total_objects, total_space;
};

struct counts {
    int64_t objects, bytes;
};

/* The estimate that a reader computes from a line. */
static double read_back(double objects, double bytes, double period) {
    return bytes / -expm1(-(bytes / objects) / period);
}

/* Finds the bytes, between half and double `guess`, from which a reader computes `wanted`. */
static double solve(double objects, double guess, double wanted, double period) {
    double low = guess / 2, high = guess * 2;
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        if (read_back(objects, middle, period) < wanted)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The profile's estimates are rounded, too. Large objects are few, so their number is imprecise and
 * the bytes are preserved. For small objects the bytes of a line hardly affect what a reader
 * computes, so their mean size is preserved. */
static struct counts divide(struct rebias *rebias, double objects, double bytes) {
    double mean = bytes / objects, period = rebias->period;
    double per_sample = bytes / sonde_memory_samples(objects, bytes, period);
    double wanted = bytes + rebias->carry;
    double samples = round(wanted / per_sample);
    rebias->carry = wanted;
    if (!(samples >= 1 && samples < 9e15))
        return (struct counts){0};
    double bytes_written = samples * mean;
    if (mean * mean > 2 * period)
        bytes_written = solve(samples, bytes_written, wanted, period);
    bytes_written = bytes_written < 1 ? 1 : round(bytes_written);
    rebias->carry = wanted - read_back(samples, bytes_written, period);
    return (struct counts){(int64_t)samples,
                           bytes_written > 9e18 ? INT64_MAX : (int64_t)bytes_written};
}

static struct counts next(struct rebias *rebias, const int64_t *values) {
    struct counts counts = {0};
    int64_t bytes = rebias->space == SONDE_PROFILE_NO_TYPE ? 0 : values[rebias->space];
    int64_t objects = rebias->objects == SONDE_PROFILE_NO_TYPE ? 1 : values[rebias->objects];
    if (bytes <= 0)
        return counts;
    counts = (struct counts){objects > 0 ? objects : 1, bytes};
    if (rebias->period > 1)
        counts = divide(rebias, (double)counts.objects, (double)counts.bytes);
    if (__builtin_add_overflow(rebias->total_objects, counts.objects, &rebias->total_objects))
        rebias->total_objects = INT64_MAX;
    if (__builtin_add_overflow(rebias->total_space, counts.bytes, &rebias->total_space))
        rebias->total_space = INT64_MAX;
    return counts;
}

static void put_stack(const struct sonde_profile *profile, const struct sonde_sample *sample,
                      struct counts inuse, struct counts alloc, struct sonde_buf *out) {
    uint64_t addresses[SONDE_PROFILE_MAX_DEPTH];
    uint32_t depth = draw_addresses(profile, sample, addresses);
    if (depth == 0)
        addresses[depth++] = 0;
    sonde_buf_printf(out, "%lld: %lld [%lld: %lld] @", (long long)inuse.objects,
                     (long long)inuse.bytes, (long long)alloc.objects, (long long)alloc.bytes);
    for (uint32_t i = 0; i < depth; i++)
        sonde_buf_printf(out, " 0x%llx", (unsigned long long)addresses[i]);
    sonde_buf_putc(out, '\n');
}

static void put_head(const struct rebias *inuse, const struct rebias *alloc,
                     struct sonde_buf *out) {
    sonde_buf_printf(out, "heap profile: %lld: %lld [%lld: %lld] @ ",
                     (long long)inuse->total_objects, (long long)inuse->total_space,
                     (long long)alloc->total_objects, (long long)alloc->total_space);
    if (inuse->period > 1)
        sonde_buf_printf(out, "heap_v2/%.0f\n", inuse->period);
    else
        sonde_buf_puts(
            out, "heapprofile\n"); /* readers do not scale, because every allocation was sampled */
}

sonde_err draw_legacy_heap(const struct sonde_profile *profile,
                           const struct sonde_draw_options *options, struct sonde_buf *out,
                           struct sonde_diag *diag) {
    struct sonde_memory_types types;
    sonde_memory_types(profile, &types);
    struct rebias inuse = {.objects = types.inuse_objects, .space = types.inuse_space};
    struct rebias alloc = {.objects = types.alloc_objects, .space = types.alloc_space};
    struct sonde_buf stacks = {.limit = out->limit};
    inuse.period = alloc.period = sonde_memory_period(profile);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        struct counts live = next(&inuse, sample.values), all = next(&alloc, sample.values);
        if (live.objects || all.objects)
            put_stack(profile, &sample, live, all, &stacks);
    }
    put_head(&inuse, &alloc, out);
    struct sonde_slice text = sonde_buf_slice(&stacks);
    sonde_buf_append(out, text.data, text.len);
    sonde_buf_puts(out, "\nMAPPED_LIBRARIES:\n");
    draw_maps(profile, out);
    out->failed |= stacks.failed;
    sonde_buf_finish(&stacks);
    return SONDE_OK;
}
