/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"
#include "tests/unit/unwind/made_up.h"

TEST(frames_follow_rsp_to_the_root) {
    struct unwind_rule rules[] = {rsp_rule(8), rsp_rule(32), rsp_rule(16), end_rule};
    use_rules(rules, 4);
    stack[10] = IN(1);
    stack[11 + 3] = IN(2);
    stack[15 + 1] = IN(3);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 4);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK_INT(pcs[0], ==, IN(0));
    CHECK_INT(pcs[1], ==, IN(1));
    CHECK_INT(pcs[2], ==, IN(2));
    CHECK_INT(pcs[3], ==, IN(3));
    CHECK_INT(result.gap_at, ==, 0);
    CHECK_INT(result.fp_frames, ==, 0);
}

TEST(a_return_address_of_zero_is_the_root) {
    struct unwind_rule rules[] = {rsp_rule(8)};
    use_rules(rules, 1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 1);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(rbp_frames_restore_rbp) {
    struct unwind_rule by_rbp = rule_of(UNWIND_CFA_RBP, 6, 16);
    by_rbp.saved[UNWIND_RBP] = -16;
    struct unwind_rule rules[] = {by_rbp, by_rbp, end_rule};
    use_rules(rules, 3);
    stack[20] = (uint64_t)(stack + 30);
    stack[21] = IN(1);
    stack[30] = 0;
    stack[31] = IN(2);
    walk_at(IN(0), stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_call_as_a_functions_last_instruction_is_looked_up_in_that_function) {
    struct unwind_rule rules[] = {rsp_rule(8), rsp_rule(24), end_rule, end_rule};
    use_rules(rules, 4);
    stack[10] = F(2); /* the call is the last instruction of function 1 */
    stack[11 + 2] = IN(3);
    walk_at(F(0), stack + 10, NULL, 127); /* the leaf is at its function's first byte */
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(pcs[2], ==, IN(3));
}

/* Function 0 calls itself `deep` times below function 1, the root. */
static void make_recursion(uint32_t deep) {
    struct unwind_rule rules[] = {rsp_rule(16), end_rule};
    use_rules(rules, 2);
    for (uint32_t i = 0; i < deep; i++)
        stack[2 * i + 1] = i + 1 < deep ? F(0) + 1 + i % 200 : IN(1);
}

TEST(of_a_deep_stack_the_leaf_most_and_root_most_frames_are_kept) {
    make_recursion(500);
    walk_at(IN(0), stack, NULL, 100);
    CHECK_INT(result.depth, ==, 100);
    CHECK_INT(result.end, ==, RING_END_DEPTH);
    CHECK_INT(result.gap_at, ==, 50);
    CHECK_INT(result.frames, ==, 501);
    for (int i = 1; i < 50; i++)
        CHECK_INT(pcs[i], ==, F(0) + 1 + (i - 1) % 200);
    for (int i = 50; i < 99; i++)
        CHECK_INT(pcs[i], ==, F(0) + 1 + (501 - 100 + i - 1) % 200);
    CHECK_INT(pcs[99], ==, IN(1));
}

TEST(depths_around_the_limit_have_the_right_result) {
    for (uint32_t deep = 1; deep < 60; deep++) {
        for (uint32_t max = 2; max < 24; max++) {
            make_recursion(deep);
            walk_at(IN(0), stack, NULL, max);
            bool fits = deep + 1 <= max;
            CHECK_INT(result.end, ==, fits ? RING_END_ROOT : RING_END_DEPTH);
            CHECK_INT(result.depth, ==, fits ? deep + 1 : max);
            CHECK_INT(result.gap_at, ==, fits ? 0 : max / 2);
            CHECK_INT(result.frames, ==, deep + 1);
            CHECK_INT(pcs[result.depth - 1], ==, IN(1));
            CHECK_INT(pcs[max], ==, 0xeeeeeeeeeeeeeeee);
        }
    }
}

TEST(a_cfa_outside_the_stack_ends_the_walk) {
    struct unwind_rule rules[] = {rsp_rule(8 * WORDS + 8), rsp_rule(-64)};
    use_rules(rules, 2);
    walk_at(IN(0), stack, NULL, 127);
    CHECK_INT(result.depth, ==, 1);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
    walk_at(IN(1), stack + 100, NULL, 127); /* backwards */
    CHECK_INT(result.depth, ==, 1);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
}

TEST(the_last_word_of_a_stack_is_read_and_none_after_it) {
    struct unwind_rule rules[] = {rsp_rule(8), rsp_rule(8)};
    use_rules(rules, 2);
    stack[WORDS - 1] = IN(1);
    walk_at(IN(0), stack + WORDS - 1, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
}

TEST(a_walk_of_an_unknown_stack_has_frame_0_only) {
    struct unwind_rule rules[] = {rsp_rule(8), end_rule};
    use_rules(rules, 2);
    bounds.thread = (struct walk_stack){0, 0};
    stack[10] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 1);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
    bounds.faults_resume = true;
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_registered_stack_is_known) {
    struct unwind_rule rules[] = {rsp_rule(8), end_rule};
    static uint64_t other[64];
    struct walk_stack extra[] = {{1, 2}, {(uint64_t)other, (uint64_t)(other + 64)}};
    use_rules(rules, 2);
    bounds.extra = extra;
    bounds.extra_count = 2;
    other[10] = IN(1);
    walk_at(IN(0), other + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(an_rbp_frame_may_lead_to_another_known_stack_but_not_forever) {
    struct unwind_rule rules[] = {rule_of(UNWIND_CFA_RBP, 6, 16), end_rule,
                                  rule_of(UNWIND_CFA_RBP, 6, 16)};
    static uint64_t other[64];
    struct walk_stack extra = {(uint64_t)other, (uint64_t)(other + 64)};
    use_rules(rules, 3);
    bounds.extra = &extra;
    bounds.extra_count = 1;
    stack[21] = IN(1);
    walk_at(IN(0), other + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    rules[2].saved[UNWIND_RBP] = -16; /* each frame's rbp points into the other stack */
    use_rules(rules, 3);
    bounds.extra = &extra;
    bounds.extra_count = 1;
    stack[20] = (uint64_t)(other + 20);
    other[20] = (uint64_t)(stack + 20);
    stack[21] = other[21] = IN(2);
    walk_at(IN(2), other + 10, stack + 20, 127);
    CHECK_INT(result.depth, <=, WALK_MAX_SWITCH + 2);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
}

TEST(a_new_generation_forgets_cached_rules) {
    struct unwind_rule rules[] = {rsp_rule(8), end_rule};
    struct unwind_rule changed[] = {rsp_rule(16), end_rule};
    use_rules(rules, 2);
    stack[10] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    use_rules(changed, 2);
    stack[11] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    use_rules(rules, 2); /* the same tag bits, 32,768 generations later */
    map.generation += 0x8000 - 1;
    stack[10] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
}

TEST(a_second_walk_finds_all_rules_in_the_cache) {
    make_recursion(90);
    walk_at(IN(0), stack, NULL, 127);
    uint64_t misses = cache.misses;
    walk_at(IN(0), stack, NULL, 127);
    CHECK_INT(cache.misses, ==, misses);
    CHECK_INT(result.depth, ==, 91);
}

TEST(a_gap_without_a_frame_pointer_ends_the_walk) {
    struct unwind_rule rules[] = {rsp_rule(8), {.cfa = UNWIND_CFA_NONE}};
    use_rules(rules, 2);
    stack[10] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_NO_TABLE);
}

TEST(a_gap_is_left_by_its_frame_pointer) {
    struct unwind_rule rules[] = {rsp_rule(8), {.cfa = UNWIND_CFA_NONE}, end_rule};
    use_rules(rules, 3);
    stack[10] = IN(1);
    stack[20] = 0;
    stack[21] = IN(2);
    walk_at(IN(0), stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK_INT(result.fp_frames, ==, 1);
}

TEST(a_rule_too_complex_for_a_row_ends_the_walk_whatever_the_frame_pointer_is) {
    struct unwind_rule rules[] = {
        rsp_rule(8), {.cfa = UNWIND_CFA_NONE, .cfa_add = UNWIND_NONE_COMPLEX}, end_rule};
    use_rules(rules, 3);
    stack[10] = IN(1);
    stack[20] = 0;
    stack[21] = IN(2);
    walk_at(IN(0), stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_RULE);
}

TEST(jit_frames_are_left_by_their_frame_pointer) {
    struct unwind_rule rules[] = {rsp_rule(8), rsp_rule(16), end_rule};
    use_rules(rules, 3);
    stack[10] = JIT + 0x100; /* function 0's caller is JIT code, whose frame is at 20 */
    stack[20] = (uint64_t)(stack + 40);
    stack[21] = JIT + 0x200;
    stack[40] = 7;
    stack[41] = IN(1);
    stack[43] = IN(2);
    walk_at(IN(0), stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 5);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK_INT(result.fp_frames, ==, 2);
    CHECK_INT(pcs[2], ==, JIT + 0x200);
    CHECK_INT(pcs[3], ==, IN(1));
}

TEST(an_implausible_frame_pointer_is_not_followed) {
    struct unwind_rule rules[] = {rsp_rule(8)};
    use_rules(rules, 1);
    stack[20] = 0;
    stack[21] = 0x12345678; /* not in code */
    const uint64_t *const wrong[] = {stack + 20, stack + 2, (uint64_t *)((char *)stack + 163), NULL,
                                     stack + WORDS - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        walk_at(JIT + 5, stack + 10, wrong[i], 127);
        CHECK_INT(result.depth, ==, 1);
        CHECK_INT(result.end, ==, RING_END_NO_TABLE);
        CHECK_INT(result.fp_frames, ==, 0);
    }
}

TEST(a_pc_in_no_module_is_kept_and_ends_the_walk) {
    struct unwind_rule rules[] = {rsp_rule(8)};
    use_rules(rules, 1);
    stack[10] = 0x7777000;
    walk_at(IN(0), stack + 10, stack + 5, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(pcs[1], ==, 0x7777000);
    CHECK_INT(result.end, ==, RING_END_NO_TABLE);
}

TEST(the_cfa_of_a_plt_stub_depends_on_whether_it_has_pushed) {
    struct unwind_rule plt = rule_of(UNWIND_CFA_PLT, 0, 0);
    plt.cfa_add = 11;
    struct unwind_rule rules[] = {plt, end_rule};
    use_rules(rules, 2);
    stack[10] = IN(1);
    walk_at(F(0) + 0x25, stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    stack[10] = 0x55, stack[11] = IN(1);
    walk_at(F(0) + 0x2b, stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(pcs[1], ==, IN(1));
}

TEST(realigned_frames_load_their_cfa) {
    struct unwind_rule rule = rule_of(UNWIND_CFA_DEREF, 6, -8);
    rule.saved[UNWIND_RBP] = -32;
    rule.cfa_add = 8;
    struct unwind_rule rules[] = {rsp_rule(8), rule, rule_of(UNWIND_CFA_RBP, 6, 16), end_rule};
    use_rules(rules, 4);
    stack[10] = IN(1);
    stack[29] = (uint64_t)(stack + 50);
    stack[50] = IN(2);
    stack[47] = (uint64_t)(stack + 70);
    stack[71] = IN(3);
    walk_at(IN(0), stack + 10, stack + 30, 127);
    CHECK_INT(result.depth, ==, 4);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(registers_saved_relative_to_rbp_are_restored_once_rbp_is) {
    struct unwind_rule leaving = rule_of(UNWIND_CFA_REG, 10, 0);
    leaving.saved[UNWIND_RBP] = 0;
    leaving.from_rbp = 1u << UNWIND_RBP;
    struct unwind_rule rules[] = {leaving, rule_of(UNWIND_CFA_RBP, 6, 16), end_rule};
    use_rules(rules, 3);
    stack[19] = IN(1);
    stack[41] = IN(2);
    struct unwind_registers registers = {.known = (1u << UNWIND_REGISTERS) - 1};
    registers.value[UNWIND_REG_PC] = IN(0);
    registers.value[UNWIND_REG_SP] = (uint64_t)(stack + 10);
    registers.value[10] = (uint64_t)(stack + 20);
    registers.value[UNWIND_REG_FP] = (uint64_t)(stack + 40); /* the caller's: restored already */
    walk_from_registers(&registers, &map, &cache, &bounds, pcs, 127, &result);
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    registers.value[UNWIND_REG_FP] = (uint64_t)(stack + 12); /* this frame's */
    stack[12] = (uint64_t)(stack + 40);
    walk_from_registers(&registers, &map, &cache, &bounds, pcs, 127, &result);
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_register_saved_far_below_the_stack_pointer_is_restored) {
    struct unwind_rule leaving =
        rsp_rule(8); /* at the ret of a function that kept rbp at CFA - 200 */
    leaving.saved[UNWIND_RBP] = -200;
    struct unwind_rule rules[] = {leaving, rule_of(UNWIND_CFA_RBP, 6, 16), end_rule};
    use_rules(rules, 3);
    stack[100] = IN(1);
    stack[121] = IN(2);
    walk_at(IN(0), stack + 100, stack + 120, 127);
    CHECK_INT(result.depth, ==, 3);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_root_that_is_never_called_is_found_after_a_gap) {
    struct unwind_rule rules[] = {rsp_rule(8), {.cfa = UNWIND_CFA_NONE}, end_rule};
    use_rules(rules, 3);
    stack[10] = F(2);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK(pcs[1] == (F(2) | RING_PC_EXACT)); /* its name is not that of the code before it */
}

TEST(a_leaf_that_may_have_no_frame_is_not_left_by_its_callers) {
    struct unwind_rule rules[] = {rsp_rule(8), end_rule};
    use_rules(rules, 2);
    stack[10] = JIT + 0x100;
    stack[20] = 0;
    stack[21] = IN(1);
    walk_at(JIT + 5, stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 1);
    CHECK_INT(result.end, ==, RING_END_NO_TABLE);
    walk_at(JIT + 5, stack + 11, stack + 20, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_cfa_from_rbx_in_an_outer_frame_is_found) {
    struct unwind_rule saves = rsp_rule(24);
    saves.saved[UNWIND_RBX] = -16;
    struct unwind_rule rules[] = {saves, rsp_rule(16), rule_of(UNWIND_CFA_REG, 3, 16), end_rule};
    use_rules(rules, 4);
    stack[11] = (uint64_t)(stack + 80);
    stack[12] = IN(1);
    stack[14] = IN(2);
    stack[81] = IN(3);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 4);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK_INT(pcs[3], ==, IN(3));
}

TEST(a_cfa_from_a_register_that_no_frame_saved_ends_the_walk) {
    struct unwind_rule rules[] = {rsp_rule(16), rule_of(UNWIND_CFA_REG, 10, 16)};
    use_rules(rules, 2);
    stack[11] = IN(1);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_RULE);
}

TEST(a_lost_rbp_is_not_used) {
    struct unwind_rule loses = rsp_rule(16);
    loses.saved[UNWIND_RBP] = UNWIND_LOST;
    struct unwind_rule rules[] = {loses, rule_of(UNWIND_CFA_RBP, 6, 16), end_rule};
    use_rules(rules, 3);
    stack[11] = IN(1);
    stack[21] = IN(2);
    walk_at(IN(0), stack + 10, stack + 20, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
}

/* walk_at compares each walk with one that has a memo of those before. */
TEST(a_memo_of_a_stack_that_has_changed_does_not_change_the_walk) {
    struct unwind_rule by_rbp = rule_of(UNWIND_CFA_RBP, 6, 16), saves = rsp_rule(32);
    by_rbp.saved[UNWIND_RBP] = -16;
    saves.saved[UNWIND_RBP] = -24;
    struct unwind_rule rules[] = {rsp_rule(8), rsp_rule(16), saves, by_rbp, rsp_rule(40), end_rule};
    uint64_t random = 4711, deepest = 0;
    use_rules(rules, 6);
    for (int i = 0; i < 512; i++)
        stack[i] = i % 3 ? IN(i % 5) : (uint64_t)(stack + i + 2);
    for (int round = 0; round < 20000; round++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t place = random >> 55, what = random >> 40 & 15, sp = random >> 30 & 31;
        stack[place] = what < 12   ? IN(what % 5)
                       : what < 15 ? (uint64_t)(stack + place + 1 + what)
                                   : IN(5);
        walk_at(IN(random >> 20 & 3), stack + sp, stack + sp + 6, round % 5 ? 127 : 9);
        deepest = result.depth > deepest ? result.depth : deepest;
        if (round % 1000 == 0)
            map.generation++;
    }
    CHECK_INT(deepest, >, 15);
}

TEST(a_memo_of_an_older_generation_is_not_used) {
    struct unwind_rule one[] = {rsp_rule(8), rsp_rule(16), end_rule};
    struct unwind_rule other[] = {rsp_rule(8), rsp_rule(24), end_rule};
    for (int i = 0; i < 2; i++) {
        use_rules(i ? other : one, 3);
        stack[10] = IN(1);
        stack[12] = stack[13] = IN(2);
        walk_at(IN(0), stack + 10, NULL, 127);
        CHECK_INT(result.depth, ==, 3);
    }
}
