/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/table_problems.h"
#include "tests/unit/check.h"

#include <errno.h>

static struct mapping *mapping_with(const char *path, sonde_err err,
                                    const struct sonde_diag *diag) {
    struct mapping *mapping = mapping_create(
        &(struct symbol_mapping){.start = 0x1000, .end = 0x2000, .inode = 1, .path = path});
    CHECK(mapping != NULL);
    mapping_set_problem(mapping, err, diag);
    return mapping;
}

static void describe(struct mapping *const *mappings, size_t count, char text[256]) {
    struct table_problems problems = {0};
    for (size_t i = 0; i < count; i++)
        table_problems_add(&problems, mappings[i]);
    table_problems_describe(&problems, text, 256);
    for (size_t i = 0; i < count; i++)
        mapping_release(mappings[i]);
}

TEST(a_table_that_could_not_be_loaded_has_a_sentence_with_the_file_and_the_error) {
    char text[256];
    struct sonde_diag diag = {0};
    sonde_err err = sonde_fail_os(&diag, EPERM, "cannot map an unwind table");
    struct mapping *mappings[] = {mapping_with("/usr/lib/libc.so.6", err, &diag),
                                  mapping_with("/usr/lib/libm.so.6", SONDE_OUT_OF_MEMORY, NULL),
                                  mapping_with("/usr/lib/libz.so.1", SONDE_OK, NULL),
                                  mapping_with("/usr/lib/libx.so.1", SONDE_CORRUPT, NULL)};
    describe(mappings, 1, text);
    CHECK_STR(text, "no unwind table of libc.so.6, so callers are missing: cannot map an unwind "
                    "table: Operation not permitted");
    mappings[0] = mapping_with("/usr/lib/libc.so.6", err, &diag);
    describe(mappings, 4, text);
    CHECK(strstr(text, "no unwind table of libc.so.6 and 2 more files, so callers") == text);
}

TEST(a_file_that_has_no_table_is_not_a_problem) {
    char text[256];
    struct mapping *mappings[] = {mapping_with("/tmp/jit", SONDE_NOT_AVAILABLE, NULL),
                                  mapping_with("/tmp/data", SONDE_INVALID_ARGUMENT, NULL)};
    describe(mappings, 2, text);
    CHECK_STR(text, "");
}

TEST(the_first_problem_of_a_mapping_is_kept) {
    char text[256];
    struct mapping *mapping = mapping_with("/bin/a", SONDE_CORRUPT, NULL);
    struct sonde_diag diag = {0};
    mapping_set_problem(mapping, sonde_fail_os(&diag, ENOMEM, "later"), &diag);
    describe(&mapping, 1, text);
    CHECK(text[0] && !strstr(text, "later"));
}
