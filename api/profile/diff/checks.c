/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/checks.h"
#include "api/profile/profile_tables.h"

#include <string.h>

bool diff_is_measure(const struct sonde_profile *profile, size_t type_index) {
    const struct sonde_value_type *period = &profile->info.period_type;
    struct sonde_value_type type = sonde_profile_type(profile, type_index);
    return strcmp(type.type, period->type) == 0 && strcmp(type.unit, period->unit) == 0;
}

sonde_err diff_check_events(const struct sonde_profile *base, const struct sonde_profile *now,
                            struct sonde_diag *diag) {
    const struct sonde_profile_info *a = &base->info, *b = &now->info;
    if (strcmp(a->period_type.type, b->period_type.type) != 0 ||
        strcmp(a->period_type.unit, b->period_type.unit) != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the profiles measure different things: they were sampled by different "
                          "events, \"%.60s\" and \"%.60s\"",
                          a->period_type.type, b->period_type.type);
    return SONDE_OK;
}

sonde_err diff_check_rates(const struct sonde_profile *base, const struct sonde_profile *now,
                           struct sonde_diag *diag) {
    const struct sonde_profile_info *a = &base->info, *b = &now->info;
    if (a->period != b->period && !(a->is_unbiased && b->is_unbiased))
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "the profiles were sampled at different rates: one sample per %lld and per "
            "%lld %.20s",
            (long long)a->period, (long long)b->period, a->period_type.unit);
    return SONDE_OK;
}

sonde_err diff_choose_type(const struct sonde_profile *profile, const char *type, size_t *index,
                           struct sonde_diag *diag) {
    *index = type ? sonde_profile_find_type(profile, type) : profile->info.default_type;
    if (*index != SONDE_PROFILE_NO_TYPE)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "the profiles have no common sample type \"%.60s\"", type);
}
