/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/contentions.h"

#include "api/profile/copy.h"

static const struct sonde_value_type types[] = {{"contentions", "count"}, {"delay", "nanoseconds"}};

static int64_t count_of(int64_t delay_ns, int64_t period_ns) {
    int64_t count = period_ns > 0 ? (delay_ns + period_ns / 2) / period_ns : 1;
    return count > 1 ? count : 1;
}

static sonde_err add_samples(struct sonde_profile *into, const struct sonde_profile *waits,
                             int64_t period_ns) {
    size_t time = sonde_profile_find_type(waits, "off_cpu");
    size_t number = sonde_profile_find_type(waits, "samples");
    struct profile_copy copy;
    struct profile_copied_sample out;
    if (time == SONDE_PROFILE_NO_TYPE)
        return SONDE_INVALID_ARGUMENT;
    sonde_err err = profile_copy_init(&copy, into, waits);
    for (size_t i = 0; !err && i < sonde_profile_sample_count(waits); i++) {
        err = profile_copy_sample(&copy, i, 0, 0, &out);
        int64_t delay_ns = err ? 0 : out.values[time];
        int64_t count =
            number == SONDE_PROFILE_NO_TYPE ? count_of(delay_ns, period_ns) : out.values[number];
        out.values[0] = count;
        out.values[1] = delay_ns;
        if (!err)
            err = sonde_profile_add_sample(into, &out.sample);
    }
    profile_copy_finish(&copy);
    return err;
}

static sonde_err add_comments(struct sonde_profile *into, const struct sonde_profile *from) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < sonde_profile_comment_count(from); i++)
        err = sonde_profile_add_comment(into, sonde_profile_comment(from, i));
    return err;
}

sonde_err sonde_profile_contentions(const struct sonde_profile *waits, int64_t period_ns,
                                    int64_t unix_ns, struct sonde_profile **copy) {
    const struct sonde_profile_info info = {.period_type = types[0],
                                            .period = 1,
                                            .time_unix_ns = unix_ns,
                                            .default_type = 1,
                                            .is_unbiased = true};
    struct sonde_profile *into = sonde_profile_create(types, 2, waits->limit_bytes);
    *copy = NULL;
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_profile_set_info(into, &info);
    sonde_err err = add_samples(into, waits, period_ns);
    if (!err)
        err = add_comments(into, waits);
    if (err)
        sonde_profile_destroy(into);
    else
        *copy = into;
    return err;
}
