/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/heap/jemalloc.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sonde_profile *read_text(const char *text, sonde_err expected) {
    struct sonde_profile *profile;
    struct sonde_diag diag = {0};
    sonde_err err = sonde_jemalloc_read(sonde_slice_of(text), 0, &profile, &diag);
    if (err != expected)
        check_fail(__FILE__, __LINE__, "error %d, not %d: %s", err, expected, diag.text);
    return profile;
}

static const char two_stacks[] = "heap_v2/524288\n"
                                 "  t*: 3: 3145856 [0: 0]\n"
                                 "  t0: 3: 3145856 [0: 0]\n"
                                 "@ 0x1010 0x2010\n"
                                 "  t*: 1: 128 [0: 0]\n"
                                 "  t0: 1: 128 [0: 0]\n"
                                 "@ 0x1020 0x2020\n"
                                 "  t*: 2: 16777216 [0: 0]\n"
                                 "  t0: 2: 16777216 [0: 0]\n"
                                 "\nMAPPED_LIBRARIES:\n"
                                 "1000-2000 r-xp 00001000 fe:00 1      /usr/bin/one\n"
                                 "2000-3000 r-xp 00000000 fe:00 2      /usr/lib/a b.so\n"
                                 "3000-4000 r--p 00000000 fe:00 2      /usr/lib/a b.so\n";

TEST(each_stack_is_scaled_by_its_own_mean_size) {
    struct sonde_profile *profile = read_text(two_stacks, SONDE_OK);
    CHECK_INT(sonde_profile_type_count(profile), ==, 2);
    CHECK_STR(sonde_profile_type(profile, 1).type, "inuse_space");
    CHECK_INT(sonde_profile_sample_count(profile), ==, 2);
    double small = 1 / (1 - exp(-128.0 / 524288));
    CHECK_NEAR(sonde_profile_sample(profile, 0).values[0], small, 0.6);
    CHECK_NEAR(sonde_profile_sample(profile, 0).values[1], 128 * small, 0.6);
    CHECK_NEAR(sonde_profile_sample(profile, 1).values[1], 16777216.0, 4);
    CHECK_INT(sonde_profile_info(profile)->period, ==, 524288);
    sonde_profile_destroy(profile);
}

TEST(only_executable_mappings_are_read_and_callers_are_decremented) {
    struct sonde_profile *profile = read_text(two_stacks, SONDE_OK);
    CHECK_INT(sonde_profile_mapping_count(profile), ==, 2);
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    const struct sonde_location *leaf = sonde_profile_location(profile, sample.locations[0]);
    const struct sonde_location *caller = sonde_profile_location(profile, sample.locations[1]);
    CHECK_INT(leaf->address, ==, 0x1010);
    CHECK_INT(caller->address, ==, 0x200f);
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, caller->mapping);
    CHECK_STR(sonde_profile_text(profile, mapping->filename), "/usr/lib/a b.so");
    sonde_profile_destroy(profile);
}

TEST(allocation_totals_are_only_read_if_the_dump_has_them) {
    struct sonde_profile *profile = read_text("heap_v2/65536\n  t*: 1: 64 [9: 900]\n@ 0x1\n"
                                              "  t*: 1: 65536 [4: 262144]\n",
                                              SONDE_OK);
    CHECK_INT(sonde_profile_type_count(profile), ==, 4);
    double scale = 1 / (1 - exp(-1.0));
    CHECK_NEAR(sonde_profile_sample(profile, 0).values[1], 262144 * scale, 1);
    CHECK_INT(sonde_profile_info(profile)->default_type, ==, 3);
    sonde_profile_destroy(profile);
}

TEST(a_dump_without_samples_is_a_valid_empty_profile) {
    struct sonde_profile *profile =
        read_text("heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n", SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(profile), ==, 0);
    sonde_profile_destroy(profile);
}

TEST(malformed_dumps_are_refused_with_the_line) {
    static const char *const broken[] = {
        "",
        "heap_v1/524288\n",
        "heap_v2/0\n",
        "heap_v2/nan\n",
        "heap_v2/x\n",
        "heap_v2/8\n@ 0x1\n  t*: x\n",
        "heap_v2/8\n@ 0x1 zzz\n  t*: 1: 1 [0: 0]\n",
        "heap_v2/8\n@ 0x1\n  t*: nan: 1 [0: 0]\n",
        "heap_v2/8\n@ 0x1\n  t*: 1: inf [0: 0]\n",
        "heap_v2/8\n@ 0x1\n  t*: -1: 1 [0: 0]\n",
        "heap_v2/8\n@ 0x1\n",
        "heap_v2/8\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n2-3 r-xp 0 0:0 0 a\n1-2 r-xp 0 0:0 0 "
        "b\n",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        CHECK(read_text(broken[i], SONDE_CORRUPT) == NULL);
}

static char *read_file(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    char *bytes = malloc(16 << 20);
    *len = fread(bytes, 1, 16 << 20, file);
    fclose(file);
    return bytes;
}

/* 3 sigma for lg 16: small blocks about 1/sqrt(64 MB / 64 KiB) = 3 %, so 10 % in all. */
TEST(a_real_dump_of_a_known_live_set_is_estimated_well) {
    char path[64], command[256];
    close(mkstemp(temporary_template(path, sizeof path)));
    snprintf(
        command, sizeof command,
        "MALLOC_CONF=prof:true,lg_prof_sample:16 tests/unit/profile/jemalloc/known_live_set %s",
        path);
    CHECK_INT(system(command), ==, 0);
    size_t len;
    char *bytes = read_file(path, &len);
    unlink(path);
    CHECK(sonde_jemalloc_is_dump((struct sonde_slice){bytes, len}));
    struct sonde_profile *profile;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_jemalloc_read((struct sonde_slice){bytes, len}, 0, &profile, &diag), ==,
              SONDE_OK);
    double mixed_bytes = 400000.0 / 8 * (7 * 32 + 2048), objects = 1000000 + 50 + 400000;
    double total = 64e6 + 50 * 1048576.0 + mixed_bytes;
    CHECK_NEAR(sonde_profile_total(profile, 1), total, total * 0.1);
    CHECK_NEAR(sonde_profile_total(profile, 0), objects, objects * 0.12);
    sonde_profile_destroy(profile);
    free(bytes);
}
