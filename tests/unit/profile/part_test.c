/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

static struct sonde_profile *copy_part(const struct sonde_profile *profile,
                                       const struct sonde_profile_part *part) {
    struct sonde_profile *copy;
    CHECK_INT(sonde_profile_copy_part(profile, part, &copy), ==, SONDE_OK);
    return copy;
}

TEST(a_shared_profile_lives_until_its_last_owner_destroys_it) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_profile *other = sonde_profile_share(profile);
    sonde_profile_destroy(profile);
    CHECK_INT(sonde_profile_sample_count(other), >, 0);
    sonde_profile_destroy(other);
}

TEST(a_part_with_everything_is_a_copy) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_profile_part part = {.types = {0, 1}, .type_count = 2, .end = SIZE_MAX};
    struct sonde_profile *copy = copy_part(profile, &part);
    CHECK_INT(sonde_profile_sample_count(copy), ==, sonde_profile_sample_count(profile));
    CHECK_INT(sonde_profile_total(copy, 0), ==, sonde_profile_total(profile, 0));
    CHECK_INT(sonde_profile_total(copy, 1), ==, sonde_profile_total(profile, 1));
    CHECK_INT(sonde_profile_info(copy)->period, ==, sonde_profile_info(profile)->period);
    CHECK_INT(sonde_profile_mapping_count(copy), ==, sonde_profile_mapping_count(profile));
    sonde_profile_destroy(copy);
    sonde_profile_destroy(profile);
}

TEST(a_part_has_its_types_and_samples_only) {
    struct sonde_profile *profile = fixture("server");
    size_t count = sonde_profile_sample_count(profile);
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        struct sonde_profile_part one = {.types = {1}, .type_count = 1, .first = i, .end = i + 1};
        struct sonde_profile *copy = copy_part(profile, &one);
        CHECK_INT(sonde_profile_type_count(copy), ==, 1);
        CHECK_STR(sonde_profile_type(copy, 0).type, sonde_profile_type(profile, 1).type);
        CHECK_INT(sonde_profile_sample_count(copy), <=, 1);
        CHECK_INT(sonde_profile_location_count(copy), <=, sonde_profile_location_count(profile));
        total += sonde_profile_total(copy, 0);
        sonde_profile_destroy(copy);
    }
    CHECK_INT(total, ==, sonde_profile_total(profile, 1));
    sonde_profile_destroy(profile);
}

TEST(samples_that_are_equal_without_labels_are_merged) {
    static const char *const without[] = {"thread", "tid", NULL};
    struct sonde_profile *profile = fixture("server");
    struct sonde_profile_part part = {
        .types = {0, 1}, .type_count = 2, .end = SIZE_MAX, .without_labels = without};
    struct sonde_profile *copy = copy_part(profile, &part);
    CHECK_INT(sonde_profile_sample_count(copy), <=, sonde_profile_sample_count(profile));
    CHECK_INT(sonde_profile_total(copy, 1), ==, sonde_profile_total(profile, 1));
    for (size_t i = 0; i < sonde_profile_sample_count(copy); i++) {
        struct sonde_sample sample = sonde_profile_sample(copy, i);
        CHECK_STR(sonde_sample_label(copy, &sample, "thread"), "");
    }
    sonde_profile_destroy(copy);
    sonde_profile_destroy(profile);
}

TEST(a_part_of_types_that_do_not_exist_is_refused) {
    struct sonde_profile *profile = fixture("server"), *copy;
    struct sonde_profile_part none = {.end = SIZE_MAX};
    struct sonde_profile_part wrong = {.types = {7}, .type_count = 1, .end = SIZE_MAX};
    CHECK_INT(sonde_profile_copy_part(profile, &none, &copy), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_copy_part(profile, &wrong, &copy), ==, SONDE_INVALID_ARGUMENT);
    CHECK(copy == NULL);
    sonde_profile_destroy(profile);
}
