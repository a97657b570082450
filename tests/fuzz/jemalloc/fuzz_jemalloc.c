/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a heap dump. They must be refused with a reason, or the profile must keep its
 * totals when trimmed, show no difference from itself, and draw in every format for memory. */
#include "api/draw/draw.h"
#include "api/profile/diff/diff.h"
#include "api/profile/heap/jemalloc.h"
#include "api/profile/heap/memory.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void draw_all(const struct sonde_profile *profile) {
    static const enum sonde_format formats[] = {SONDE_FORMAT_LEGACY_HEAP, SONDE_FORMAT_HEAPSNAPSHOT,
                                                SONDE_FORMAT_HEAPPROFILE, SONDE_FORMAT_TEXT_TOP,
                                                SONDE_FORMAT_COLLAPSED};
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct sonde_buf out = {.limit = 1 << 18};
        sonde_err err = sonde_draw(profile, formats[i], &options, &out, NULL);
        must(err == SONDE_TOO_LARGE || (err == SONDE_OK && out.len > 0),
             "the profile can be drawn");
        sonde_buf_finish(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_profile *profile, *trimmed, *nothing;
    struct sonde_diag diag = {0};
    struct sonde_slice bytes = {(const char *)data, size};
    if (sonde_jemalloc_read(bytes, 1 << 20, &profile, &diag) != SONDE_OK) {
        must(diag.text[0] != 0 && profile == NULL, "a refusal has a reason");
        return 0;
    }
    sonde_err err = sonde_memory_trim(profile, sonde_memory_of_library, NULL, &trimmed, &diag);
    must(err == SONDE_OK || err == SONDE_TOO_LARGE, diag.text);
    if (!err) {
        for (size_t i = 0; i < sonde_profile_type_count(profile); i++)
            must(sonde_profile_total(trimmed, i) == sonde_profile_total(profile, i),
                 "trimming keeps the total");
        err = sonde_profile_diff(trimmed, trimmed, NULL, &nothing, &diag);
        must(err == SONDE_TOO_LARGE || (!err && sonde_profile_sample_count(nothing) == 0),
             "a profile does not differ from itself");
        draw_all(trimmed);
        sonde_profile_destroy(nothing);
    }
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(profile);
    return 0;
}
