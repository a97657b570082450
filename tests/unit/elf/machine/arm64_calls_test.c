/* SPDX-License-Identifier: Apache-2.0
 *
 * How calls and entries of linkage tables of arm64 are recognized, on any machine. */
#include "service/machine/own/call_site.h"
#include "service/unwind/step/step.h"
#include "tests/unit/check.h"

#define CODE 0x400000ull

static uint64_t before(uint32_t instruction) {
    return (uint64_t)instruction << 32 | 0xd503201f; /* nop */
}

TEST(arm64_a_call_is_recognized_by_the_instruction_before_its_return_address) {
    uint64_t target;
    CHECK(unwind_is_direct_call(before(0x94000004), CODE + 0x104, &target)); /* bl . + 16 */
    CHECK_INT(target, ==, CODE + 0x110);
    CHECK(unwind_is_direct_call(before(0x97ffffff), CODE + 0x104, &target)); /* bl . - 4 */
    CHECK_INT(target, ==, CODE + 0xfc);
    CHECK(!unwind_is_direct_call(before(0x14000004), CODE + 0x104, &target)); /* b */
    CHECK(unwind_is_pointer_call(before(0xd63f0100)));                        /* blr x8 */
    CHECK(unwind_is_pointer_call(before(0xd73f0909)));                        /* blraa x8, x9 */
    CHECK(unwind_is_pointer_call(before(0xd63f091f)));                        /* blraaz x8 */
    CHECK(!unwind_is_pointer_call(before(0xd61f0100)));                       /* br x8 */
    CHECK(!unwind_is_pointer_call(before(0x94000004)));
}

TEST(arm64_entries_of_linkage_tables_are_recognized_with_and_without_landing_pads) {
    const struct unwind_rule entry = {.cfa = UNWIND_CFA_RSP,
                                      .arm64 = {.frame = UNWIND_SAME, .link = UNWIND_SAME}};
    struct unwind_rule pushed = entry;
    pushed.cfa_offset = 16, pushed.arm64.link = -1;
    CHECK(unwind_is_entry(&entry));
    CHECK(!unwind_is_entry(&pushed));
    CHECK(unwind_is_stub(0xf9400e1190000090));
    CHECK(unwind_is_stub(0x90000090d503245f));
    CHECK(!unwind_is_stub(0xf9400e1190000091)); /* adrp x17 */
}
