/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a pprof file whose samples may be marked as a base. No sample gets lost when the two
 * are split, and their difference is drawn or refused. */
#include "api/draw/diff.h"
#include "api/profile/diff/diff.h"
#include "api/profile/pprof/pprof.h"

#include <stdio.h>
#include <stdlib.h>

#define LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void draw(const struct sonde_profile *base, const struct sonde_profile *now,
                 enum sonde_format format) {
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    struct sonde_draw_options options = {.title = NULL};
    struct sonde_buf out = {.limit = 16 << 20};
    struct sonde_diag diag = {0};
    sonde_err err = sonde_draw_difference(&diff, format, &options, &out, &diag);
    must(err == SONDE_OK || err == SONDE_TOO_LARGE || err == SONDE_INVALID_ARGUMENT, diag.text);
    must(err != SONDE_OK || out.len > 0, "a drawn difference is not empty");
    sonde_buf_finish(&out);
}

static void check(const struct sonde_profile *profile) {
    struct sonde_profile *base, *now;
    sonde_err err = sonde_profile_split_base(profile, &base, &now);
    must(err == SONDE_OK || err == SONDE_TOO_LARGE, "the profile is split");
    must(!base == !now, "both or none");
    if (!base)
        return;
    size_t split = sonde_profile_sample_count(base) + sonde_profile_sample_count(now);
    must(sonde_profile_sample_count(base) > 0, "a base has samples");
    must(split <= sonde_profile_sample_count(profile), "no sample is in both");
    draw(base, now, SONDE_FORMAT_SVG_FLAMEGRAPH);
    draw(base, now, SONDE_FORMAT_PPROF);
    draw(base, now, SONDE_FORMAT_GRAFANA);
    draw(base, now, SONDE_FORMAT_TEXT_TOP);
    draw(base, now, SONDE_FORMAT_MARKDOWN);
    draw(base, now, SONDE_FORMAT_CHANGES);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_profile *profile;
    struct sonde_slice bytes = {(const char *)data, size};
    if (sonde_pprof_read(bytes, LIMIT, &profile, NULL))
        return 0;
    check(profile);
    sonde_profile_destroy(profile);
    return 0;
}
