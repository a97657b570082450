/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/contentions.h"

#include "api/profile/copy.h"
#include "api/profile/select/wait_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sonde_value_type sonde_contention_types[2] = {{"contentions", "count"},
                                                           {"delay", "nanoseconds"}};

static int64_t count_of(int64_t delay_ns, int64_t period_ns) {
    int64_t count = period_ns > 0 ? (delay_ns + period_ns / 2) / period_ns : 1;
    return count > 1 ? count : 1;
}

static sonde_err add_samples(struct sonde_profile *into, const struct sonde_profile *waits,
                             int64_t period_ns) {
    size_t time = sonde_profile_find_type(waits, "off_cpu");
    struct profile_copy copy;
    struct profile_copied_sample out;
    if (time == SONDE_PROFILE_NO_TYPE)
        return SONDE_INVALID_ARGUMENT;
    sonde_err err = profile_copy_init(&copy, into, waits);
    for (size_t i = 0; !err && i < sonde_profile_sample_count(waits); i++) {
        err = profile_copy_sample(&copy, i, 0, 0, &out);
        int64_t delay_ns = err ? 0 : out.values[time];
        out.values[0] = count_of(delay_ns, period_ns);
        out.values[1] = delay_ns;
        if (!err)
            err = sonde_profile_add_sample(into, &out.sample);
    }
    profile_copy_finish(&copy);
    return err;
}

static sonde_err add_comments(struct sonde_profile *into, const struct sonde_profile *from,
                              int64_t period_ns) {
    char text[80];
    snprintf(text, sizeof text, "contentions: estimated, one per %.0f ms of waiting",
             (double)period_ns / 1e6);
    sonde_err err = period_ns > 0 ? sonde_profile_add_comment(into, text) : SONDE_OK;
    for (size_t i = 0; !err && i < sonde_profile_comment_count(from); i++)
        err = sonde_profile_add_comment(into, sonde_profile_comment(from, i));
    return err;
}

sonde_err sonde_profile_contentions(const struct sonde_profile *waits, int64_t period_ns,
                                    int64_t unix_ns, struct sonde_profile **copy) {
    const struct sonde_profile_info info = {.period_type = sonde_contention_types[0],
                                            .period = 1,
                                            .time_unix_ns = unix_ns,
                                            .default_type = 1,
                                            .is_unbiased = true};
    struct sonde_profile *into =
        sonde_profile_create(sonde_contention_types, 2, waits->limit_bytes);
    *copy = NULL;
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_profile_set_info(into, &info);
    sonde_err err = add_samples(into, waits, period_ns);
    if (!err)
        err = add_comments(into, waits, period_ns);
    if (err)
        sonde_profile_destroy(into);
    else
        *copy = into;
    return err;
}

sonde_err sonde_profile_only_locks(const struct sonde_profile *profile,
                                   struct sonde_profile **copy) {
    size_t count = sonde_profile_sample_count(profile);
    bool *is_wanted = calloc(count + 1, sizeof *is_wanted);
    sonde_err err = SONDE_OUT_OF_MEMORY;
    *copy = NULL;
    for (size_t i = 0; is_wanted && i < count; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        is_wanted[i] = sonde_wait_is_contention(
            sonde_wait_of_stack(profile, sample.locations, sample.location_count).kind);
    }
    if (is_wanted)
        err = profile_copy_wanted(profile, is_wanted,
                                  "waits: only for mutexes and read-write locks", copy);
    free(is_wanted);
    return err;
}
