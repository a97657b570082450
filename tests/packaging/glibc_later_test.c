/* SPDX-License-Identifier: Apache-2.0
 *
 * The archive's functions for an older glibc, compared with glibc's own. */
#include "tests/unit/check.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

typedef int finder(void *pc, struct dl_find_object *found);

static void *symbol(const char *name) {
    void *library = dlopen("bazel/packaging/bundle/libsonde-glibc.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    return library ? dlsym(library, name) : NULL;
}

static finder *own_finder(void) {
    finder *own = NULL;
    *(void **)&own = symbol("_dl_find_object");
    return own;
}

TEST(unwind_tables_are_found_as_glibc_finds_them) {
    finder *own = own_finder();
    CHECK(own);
    void *pcs[] = {(void *)own_finder, (void *)own, dlsym(RTLD_DEFAULT, "printf")};
    for (size_t i = 0; own && i < sizeof pcs / sizeof *pcs; i++) {
        struct dl_find_object found = {0}, expected = {0};
        CHECK_INT(own(pcs[i], &found), ==, 0);
        CHECK_INT(_dl_find_object(pcs[i], &expected), ==, 0);
        CHECK(found.dlfo_eh_frame == expected.dlfo_eh_frame);
    }
}

TEST(an_address_outside_of_all_files_is_not_found) {
    struct dl_find_object found;
    finder *own = own_finder();
    CHECK(own && own((void *)16, &found) == -1);
    CHECK(own && own(&found, &found) == -1);
}

TEST(random_numbers_differ) {
    uint32_t (*random)(void) = NULL;
    *(void **)&random = symbol("arc4random");
    CHECK(random);
    uint32_t first = random ? random() : 0;
    CHECK(random && (first != random() || first != random()));
}
