/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile and its base in one file, as `go tool pprof -diff_base` writes them: samples of the
 * base have the label pprof::base and negative values. */
#include "api/profile/copy.h"
#include "api/profile/diff/diff.h"

#include <string.h>

#define BASE_LABEL "pprof::base"

static bool is_base_label(const struct sonde_profile *profile, const struct sonde_label *label) {
    return label->str && strcmp(sonde_profile_text(profile, label->key), BASE_LABEL) == 0;
}

static bool is_of_base(const struct sonde_profile *profile, const struct sonde_sample *sample) {
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (is_base_label(profile, &sample->labels[i]))
            return true;
    return false;
}

static bool has_base(const struct sonde_profile *profile) {
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (is_of_base(profile, &sample))
            return true;
    }
    return false;
}

/* What the base is, without the mark. */
static void unmark(const struct sonde_profile *profile, struct profile_copied_sample *copied) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < copied->sample.label_count; i++)
        if (!is_base_label(profile, &copied->labels[i]))
            copied->labels[kept++] = copied->labels[i];
    copied->sample.label_count = kept;
    for (size_t i = 0; i < sonde_profile_type_count(profile); i++)
        if (copied->values[i] < 0)
            copied->values[i] = profile_multiply(copied->values[i], -1);
}

static sonde_err copy_side(const struct sonde_profile *profile, bool of_base,
                           struct sonde_profile **side) {
    struct profile_copy copy;
    struct profile_copied_sample copied;
    struct sonde_profile *into = profile_copy_empty(profile);
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_init(&copy, into, profile);
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (is_of_base(profile, &sample) != of_base)
            continue;
        err = profile_copy_sample(&copy, i, 0, 0, &copied);
        if (!err && of_base)
            unmark(into, &copied);
        if (!err)
            err = sonde_profile_add_sample(into, &copied.sample);
    }
    profile_copy_finish(&copy);
    if (err)
        sonde_profile_destroy(into);
    else
        *side = into;
    return err;
}

sonde_err sonde_profile_split_base(const struct sonde_profile *profile, struct sonde_profile **base,
                                   struct sonde_profile **now) {
    *base = *now = NULL;
    if (!has_base(profile))
        return SONDE_OK;
    sonde_err err = copy_side(profile, true, base);
    if (!err)
        err = copy_side(profile, false, now);
    if (err) {
        sonde_profile_destroy(*base);
        *base = NULL;
    }
    return err;
}
