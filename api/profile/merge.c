/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the mappings, locations and samples of one profile to another. */
#include "api/profile/copy.h"

static sonde_err merge_all(struct profile_copy *copy, int64_t scale) {
    const struct sonde_profile *from = copy->from;
    struct profile_copied_sample copied;
    uint32_t ignored;
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= from->locations.count && !err; id++)
        err = profile_copy_location(copy, id, &ignored);
    for (size_t i = 0; i < from->samples.count && !err; i++) {
        err = profile_copy_sample(copy, i, 0, 0, &copied);
        for (size_t k = 0; k < from->type_count; k++)
            copied.values[k] = profile_multiply(copied.values[k], scale);
        if (!err)
            err = sonde_profile_add_sample(copy->into, &copied.sample);
    }
    return err;
}

sonde_err sonde_profile_merge(struct sonde_profile *into, const struct sonde_profile *from,
                              int64_t scale, struct sonde_diag *diag) {
    if (into == from)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a profile cannot be merged into itself");
    if (!profile_same_types(into, from))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the profiles measure different things: \"%.60s\" and \"%.60s\"",
                          sonde_profile_type(into, 0).type, sonde_profile_type(from, 0).type);
    struct profile_copy copy;
    sonde_err err = profile_copy_init(&copy, into, from);
    if (!err)
        err = merge_all(&copy, scale);
    if (!err && scale > 0)
        into->info.duration_ns = profile_add(into->info.duration_ns, from->info.duration_ns);
    profile_copy_finish(&copy);
    return err ? sonde_fail(diag, err, "%s", sonde_diag_text(NULL, err)) : SONDE_OK;
}
