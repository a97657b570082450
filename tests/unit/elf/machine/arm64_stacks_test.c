/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over the tables of files that clang makes for arm64, on any machine. */
#include "tests/unit/check.h"
#include "tests/unit/elf/machine/arm64_source.h"
#include "tests/unit/elf/machine/arm64_stacks.h"
#include "tests/unit/symbol/fixture.h"

#include <stdio.h>

#define ARM64 "clang --target=aarch64-linux-gnu -nostdlib -fuse-ld=lld "

TEST(arm64_stacks_made_from_rows_of_readelf_are_walked_to_their_root) {
    uint64_t by_other = 0;
    fixture_write("frames.c", ARM64_SOURCE);
    for (size_t i = 0; i < sizeof arm64_flags / sizeof *arm64_flags; i++) {
        struct arm64_stacks stacks;
        fixture_must("ld.lld",
                     ARM64 "%s -shared -fPIC -fasynchronous-unwind-tables frames.c -o frames",
                     arm64_flags[i]);
        CHECK_INT(arm64_stacks_walk(fixture_path("frames"), 40, &stacks, NULL), ==, SONDE_OK);
        CHECK_INT(stacks.rows, >, 10);
        CHECK_INT(stacks.frames, >, 200);
        CHECK_INT(stacks.wrong, ==, 0);
        CHECK_INT(stacks.lost, ==, 0);
        by_other += stacks.by_other;
    }
    printf("%lu frames by another register than sp and x29\n", (unsigned long)by_other);
}
