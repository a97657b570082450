/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over the tables of files that clang makes for arm64, on any machine. */
#include "tests/unit/check.h"
#include "tests/unit/elf/machine/arm64_source.h"
#include "tests/unit/elf/machine/arm64_stacks.h"
#include "tests/unit/symbol/fixture.h"

#define ARM64 "clang --target=aarch64-linux-gnu -nostdlib -fuse-ld=lld "

TEST(arm64_stacks_made_from_rows_of_readelf_are_walked_to_their_root) {
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
    }
}

/* Compilers rarely do this, so an assembler does. */
static sonde_err walk_assembly(const char *text, struct arm64_stacks *stacks) {
    fixture_write("made.s", text);
    fixture_must("ld.lld", ARM64 "-shared made.s -o made");
    return arm64_stacks_walk(fixture_path("made"), 40, stacks, NULL);
}

TEST(arm64_frames_by_another_register_are_walked_to_their_root) {
    struct arm64_stacks stacks;
    sonde_err err = walk_assembly("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
                                  "    .cfi_def_cfa 31, 64\n    .cfi_offset 29, -64\n"
                                  "    .cfi_offset 30, -56\n    .cfi_offset 19, -48\n    nop\n"
                                  "    .cfi_def_cfa 19, 64\n    nop\n    nop\n"
                                  "    .cfi_endproc\n",
                                  &stacks);
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(stacks.by_other, >, 0);
    CHECK_INT(stacks.wrong, ==, 0);
    CHECK_INT(stacks.lost, ==, 0);
}

TEST(arm64_no_stack_is_made_of_leaves) {
    struct arm64_stacks stacks;
    CHECK_INT(walk_assembly("    .text\n    .globl f\nf:\n    .cfi_startproc\n    nop\n"
                            "    .cfi_def_cfa_offset 16\n    nop\n    .cfi_endproc\n",
                            &stacks),
              ==, SONDE_CORRUPT);
    CHECK_INT(stacks.rows, >, 0);
}
