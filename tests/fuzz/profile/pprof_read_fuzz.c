/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a pprof file. An accepted profile must be the same after it was written and
 * read again, and must draw in every format. */
#include "api/draw/draw.h"
#include "api/profile/heap/memory.h"
#include "api/profile/pprof/pprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static struct sonde_buf drawn_with(const struct sonde_profile *profile, enum sonde_format format,
                                   const struct sonde_draw_options *options) {
    /* A snapshot of arbitrary numbers may have a million objects. */
    struct sonde_buf out = {.limit = format == SONDE_FORMAT_HEAPSNAPSHOT ? 1 << 18 : 64 << 20};
    struct sonde_diag diag = {0};
    sonde_err err = sonde_draw(profile, format, options, &out, &diag);
    must(err == SONDE_OK || err == SONDE_TOO_LARGE, diag.text);
    return out;
}

static struct sonde_buf drawn(const struct sonde_profile *profile, enum sonde_format format) {
    return drawn_with(profile, format, NULL);
}

/* The formats that have options of their own: both sides of a difference, fewer kernel frames. */
static void check_options(const struct sonde_profile *profile) {
    static const enum sonde_format formats[] = {SONDE_FORMAT_GRAFANA, SONDE_FORMAT_FLAMEBEARER,
                                                SONDE_FORMAT_DEEPFLOW_TREE,
                                                SONDE_FORMAT_DEEPFLOW_COLUMNAR};
    const struct sonde_draw_options options = {.title = "Total",
                                               .palette = SONDE_PALETTE_DIFF,
                                               .base_index = sonde_profile_type_count(profile) - 1,
                                               .limit_kernel_frames = true,
                                               .max_kernel_frames = 1};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct sonde_buf out = drawn_with(profile, formats[i], &options);
        must(out.len > 0, "drawn with options");
        sonde_buf_finish(&out);
    }
}

static void check_written_profile(const struct sonde_profile *profile) {
    struct sonde_buf raw = {0};
    struct sonde_profile *again;
    must(sonde_pprof_write(profile, 0, &raw, NULL) == SONDE_OK, "the profile can be written");
    must(sonde_pprof_read(sonde_buf_slice(&raw), SIZE_MAX, &again, NULL) == SONDE_OK,
         "the written profile can be read");
    must(sonde_profile_sample_count(again) == sonde_profile_sample_count(profile), "samples");
    must(sonde_profile_location_count(again) == sonde_profile_location_count(profile), "locations");
    must(sonde_profile_comment_count(again) == sonde_profile_comment_count(profile), "comments");
    struct sonde_buf a = drawn(profile, SONDE_FORMAT_COLLAPSED);
    struct sonde_buf b = drawn(again, SONDE_FORMAT_COLLAPSED);
    must(a.len == b.len && memcmp(a.data, b.data, a.len) == 0, "the same stacks");
    sonde_buf_finish(&a);
    sonde_buf_finish(&b);
    sonde_buf_finish(&raw);
    sonde_profile_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_profile *profile;
    struct sonde_diag diag = {0};
    struct sonde_slice bytes = {(const char *)data, size};
    sonde_err err = sonde_pprof_read(bytes, LIMIT, &profile, &diag);
    must((err == SONDE_OK) == (profile != NULL), "either a profile or an error");
    if (err) {
        must(err == SONDE_CORRUPT || err == SONDE_TOO_LARGE, diag.text);
        return 0;
    }
    check_written_profile(profile);
    size_t count;
    const struct sonde_format_info *rows = sonde_format_table(&count);
    bool is_memory = sonde_memory_types(profile, NULL);
    for (size_t i = 0; i < count; i++) {
        bool is_of_one = rows[i].offered & SONDE_OF_CPU || is_memory;
        if (!rows[i].is_drawn || !is_of_one || rows[i].offered == SONDE_OF_DIFFERENCE)
            continue;
        struct sonde_buf out = drawn(profile, rows[i].format);
        must(out.len > 0, rows[i].output);
        sonde_buf_finish(&out);
    }
    check_options(profile);
    sonde_profile_destroy(profile);
    return 0;
}
