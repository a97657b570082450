/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks of copied stacks, with artificial tables and words. Real code is walked in step_test.c. */
#include "service/unwind/copy/copy.h"
#include "service/unwind/remote/remote.h"
#include "service/unwind/step/step.h"
#include "service/unwind/table/rows.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define CODE     0x400000ull
#define JIT      (2 * CODE)
#define LATER    (3 * CODE)
#define STACK    0x7f0000000000ull
#define WORDS    256
#define VSYSCALL 0xffffffffff600000ull

/* At CODE: a leaf (rsp + 8), at + 0x100 a function with a frame pointer, at + 0x200 the root,
 * at + 0x300 a function that finds its frame from rbx, at + 0x400 a gap, at + 0x500 a frame of two
 * words, at + 0x600 a complex rule, at + 0x700 a signal trampoline, at + 0x740 a function that
 * saves rbx and loses rbp, at + 0x780 a frame of 64 MiB and more, at + 0x7c0 code that keeps no
 * frame pointers, at + 0x7d8 one whose return address is in rdi, at + 0x7e0 padding, at + 0x7f0 a
 * function. JIT code has no table; the table of LATER is not there yet. */
static struct sonde_buf table;
static uint64_t words[WORDS];
static struct unwind_walker *walker;
static uint64_t serial = 1;
static unsigned finds;

static struct unwind_rule rule(uint8_t cfa, int32_t offset, int16_t rbp) {
    struct unwind_rule made = {.cfa = cfa, .cfa_offset = offset};
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
        made.saved[i] = UNWIND_SAME;
    made.saved[UNWIND_RBP] = rbp;
    return made;
}

static void add(struct unwind_rows *rows, uint32_t pc, struct unwind_rule made) {
    unwind_rows_add(rows, pc, &made);
}

static void add_rules(struct unwind_rows *rows) {
    struct unwind_rule by_rbx = rule(UNWIND_CFA_REG, 16, UNWIND_SAME);
    struct unwind_rule complex = rule(UNWIND_CFA_NONE, 0, UNWIND_SAME);
    struct unwind_rule loses = rule(UNWIND_CFA_RSP, 16, UNWIND_LOST);
    by_rbx.cfa_register = 3;
    complex.cfa_add = UNWIND_NONE_COMPLEX;
    loses.saved[UNWIND_RBX] = -16;
    add(rows, 0, rule(UNWIND_CFA_RSP, 8, UNWIND_SAME));
    unwind_rows_gap(rows, 0xf0);
    add(rows, 0x100, rule(UNWIND_CFA_RSP, 8, -16)); /* as an epilogue after "pop rbp" */
    add(rows, 0x104, rule(UNWIND_CFA_RBP, 16, -16));
    unwind_rows_gap(rows, 0x1f0);
    add(rows, 0x200, rule(UNWIND_CFA_END, 0, UNWIND_SAME));
    unwind_rows_gap(rows, 0x2f0);
    add(rows, 0x300, by_rbx);
    unwind_rows_gap(rows, 0x3f0);
    add(rows, 0x500, rule(UNWIND_CFA_RSP, 16, UNWIND_SAME));
    add(rows, 0x600, complex);
    add(rows, 0x700, rule(UNWIND_CFA_SIGNAL, 0, UNWIND_SAME));
    add(rows, 0x740, loses);
    add(rows, 0x780, rule(UNWIND_CFA_RSP, (1 << 26) + 64, UNWIND_SAME));
    struct unwind_rule without = rule(UNWIND_CFA_NONE, 0, UNWIND_SAME);
    without.cfa_add = UNWIND_NONE_NO_POINTER;
    add(rows, 0x7c0, without);
    struct unwind_rule returns = rule(UNWIND_CFA_RETURN, 8, UNWIND_SAME);
    returns.cfa_register = 5;
    add(rows, 0x7d8, returns);
    without.cfa_add = UNWIND_NONE_PADDING;
    add(rows, 0x7e0, without);
    add(rows, 0x7f0, rule(UNWIND_CFA_RSP, 8, UNWIND_SAME));
    unwind_rows_gap(rows, 0x800);
}

static void begin(void) {
    memset(words, 0, sizeof words);
    serial++;
    finds = 0;
    if (walker)
        return;
    struct unwind_rows rows;
    unwind_rows_init(&rows);
    rows.origin = 0;
    add_rules(&rows);
    CHECK_INT(unwind_rows_write(&rows, &table), ==, SONDE_OK);
    unwind_rows_finish(&rows);
    walker = unwind_walker_create();
    CHECK(walker != NULL);
}

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    finds++;
    *range = (struct unwind_range){CODE, CODE + 0x800, table.data, CODE};
    if (pc >= CODE && pc < CODE + 0x800)
        return UNWIND_FOUND;
    range->image = NULL;
    if (pc >= JIT && pc < JIT + 0x1000)
        return UNWIND_FOUND;
    return pc >= LATER && pc < LATER + 0x1000 ? UNWIND_LATER : UNWIND_NOT_CODE;
}

static uint64_t pcs[64];

static struct unwind_copy_walk walk_bytes(struct unwind_registers registers, size_t bytes) {
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = 64};
    struct unwind_code_map map = {NULL, find, serial};
    uint64_t at = registers.value[UNWIND_REG_SP] - STACK;
    /* Exactly the bytes of the copy, at an odd address, so that a sanitizer sees every other read.
     */
    uint8_t *block = malloc(bytes + 1);
    CHECK(block != NULL);
    memcpy(block + 1, (const uint8_t *)words + at, bytes);
    struct unwind_copy copy = {registers, block + 1, bytes};
    unwind_copy_walk(walker, &map, &copy, &walk);
    free(block);
    return walk;
}

static struct unwind_registers registers_at(uint64_t pc, uint32_t sp_word, uint64_t rbp) {
    struct unwind_registers registers = {.known = UNWIND_ALL_KNOWN};
    registers.value[UNWIND_REG_PC] = pc;
    registers.value[UNWIND_REG_SP] = STACK + 8 * sp_word;
    registers.value[UNWIND_REG_FP] = rbp;
    return registers;
}

static struct unwind_copy_walk walk_from(uint64_t pc, uint32_t sp_word, uint64_t rbp) {
    return walk_bytes(registers_at(pc, sp_word, rbp), 8 * (WORDS - sp_word));
}

TEST(a_leaf_returns_to_the_root) {
    begin();
    words[10] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 2);
    CHECK_INT(pcs[0], ==, CODE + 0x10);
    CHECK_INT(pcs[1], ==, CODE + 0x210);
    CHECK_INT(walk.used_bytes, ==, 8);
}

TEST(a_return_address_of_zero_is_the_root) {
    begin();
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_ROOT);
}

TEST(frame_pointers_are_followed_by_rule) {
    begin();
    words[10] = CODE + 0x150;
    words[20] = STACK + 8 * 30, words[21] = CODE + 0x160;
    words[30] = 0, words[31] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 4);
    CHECK_INT(walk.pointer_frames, ==, 0);
    CHECK_INT(walk.used_bytes, ==, 8 * 22);
}

/* The rule still says that rbp is saved below rsp, where the copy has nothing. */
TEST(a_register_saved_in_the_first_frames_red_zone_counts_as_restored) {
    begin();
    words[10] = CODE + 0x150;
    words[20] = 0, words[21] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(CODE + 0x101, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 3);
}

TEST(a_register_that_the_loop_forgot_is_found_by_another_walk) {
    begin();
    words[10] = CODE + 0x350;
    words[40] = 0, words[41] = CODE + 0x210;
    struct unwind_registers registers = registers_at(CODE + 0x10, 10, 0);
    registers.value[UNWIND_REG_RBX] = STACK + 8 * 40;
    struct unwind_copy_walk walk = walk_bytes(registers, 8 * (WORDS - 10));
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 3);
    CHECK_INT(pcs[2], ==, CODE + 0x210);
}

TEST(a_return_address_in_a_register_is_known_of_the_first_frame) {
    begin();
    struct unwind_registers registers = registers_at(CODE + 0x7d8, 10, 0);
    registers.value[5] = CODE + 0x510;
    words[12] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_bytes(registers, 8 * (WORDS - 10));
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 3);
    CHECK_INT(pcs[1], ==, CODE + 0x510);
    CHECK_INT(pcs[2], ==, CODE + 0x210);
    words[10] = CODE + 0x7d9; /* of a caller it is not */
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_RULE);
}

TEST(a_lost_register_that_is_needed_ends_the_walk) {
    begin();
    words[10] = STACK + 8 * 40, words[11] = CODE + 0x150;
    struct unwind_copy_walk walk = walk_from(CODE + 0x750, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_RULE);
    CHECK_INT(walk.count, ==, 2);
    words[11] = CODE + 0x350; /* it restored the one that this needs */
    words[41] = CODE + 0x210;
    CHECK_INT(walk_from(CODE + 0x750, 10, STACK + 8 * 20).end, ==, UNWIND_COPY_ROOT);
}

TEST(code_without_a_table_is_left_by_its_frame_pointer) {
    begin();
    words[20] = STACK + 8 * 30, words[21] = JIT + 0x10;
    words[30] = 0, words[31] = CODE + 0x210;
    for (int i = 0; i < 2; i++) {
        struct unwind_copy_walk walk = walk_from(JIT + 5, 10, STACK + 8 * 20);
        CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
        CHECK_INT(walk.count, ==, 3);
        CHECK_INT(walk.pointer_frames, ==, 2);
    }
    CHECK_INT(walk_from(CODE + 0x410, 10, STACK + 8 * 20).count, ==, 3); /* a gap */
}

TEST(a_leaf_that_may_have_no_frame_is_not_left_by_its_callers) {
    begin();
    words[20] = STACK + 8 * 30, words[21] = JIT + 0x10;
    words[30] = 0, words[31] = CODE + 0x210;
    words[10] = JIT + 0x30; /* no frame: this is its return address */
    struct unwind_copy_walk walk = walk_from(JIT + 5, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk.count, ==, 1);
    words[10] = STACK + 8 * 20, words[11] = JIT + 0x30; /* behind push rbp */
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * 20).end, ==, UNWIND_COPY_NO_TABLE);
    words[11] = 5;
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * 20).count, ==, 3);
    words[10] = JIT + 5, words[11] = JIT + 0x30; /* a caller has a frame */
    CHECK_INT(walk_from(CODE + 0x10, 10, STACK + 8 * 20).count, ==, 4);
}

TEST(code_that_keeps_no_frame_pointers_is_never_left_by_them) {
    begin();
    words[10] = CODE + 0x7d0;
    words[20] = 0, words[21] = CODE + 0x210;
    CHECK_INT(walk_from(CODE + 0x7d0, 11, STACK + 8 * 20).end, ==, UNWIND_COPY_NO_TABLE);
    struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk.count, ==, 2);
}

/* As makecontext's, which has the rule of any function. */
TEST(a_function_that_is_only_entered_by_a_return_is_the_root) {
    begin();
    words[10] = CODE + 0x7f0, words[11] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 2);
    CHECK(pcs[1] == ((CODE + 0x7f0) | UNWIND_COPY_EXACT));
    words[10] = CODE + 0x7e8; /* in the padding */
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_NO_TABLE);
}

/* As in Go programs without symbols and DWARF: goexit, the root, has rbp 0. */
TEST(a_chain_of_frame_pointers_ends_with_zero_at_its_root) {
    begin();
    words[20] = STACK + 8 * 30, words[21] = JIT + 0x10;
    words[30] = 0, words[31] = JIT + 0x20;
    struct unwind_copy_walk walk = walk_from(JIT + 5, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 3);
    CHECK_INT(walk_from(JIT + 5, 10, 0).end, ==, UNWIND_COPY_NO_TABLE); /* no chain */
}

TEST(an_implausible_frame_pointer_is_not_followed) {
    begin();
    words[20] = STACK + 8 * 30, words[21] = 0x1234567; /* not code */
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * 20).end, ==, UNWIND_COPY_NO_TABLE);
    words[21] = CODE + 0x210;
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * 20).end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * 20 + 4).end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk_from(JIT + 5, 30, STACK + 8 * 20).end, ==, UNWIND_COPY_NO_TABLE); /* below */
    CHECK_INT(walk_from(JIT + 5, 10, 0).end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk_from(JIT + 5, 10, ~7ull).end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk_from(JIT + 5, 10, STACK + (1 << 20)).end, ==, UNWIND_COPY_NO_TABLE);
    CHECK_INT(walk_from(JIT + 5, 10, STACK + 8 * WORDS - 8).end, ==, UNWIND_COPY_SHORT);
}

TEST(a_frame_above_the_copy_is_short) {
    begin();
    words[10] = CODE + 0x510, words[12] = CODE + 0x210;
    struct unwind_registers registers = registers_at(CODE + 0x10, 10, STACK + 8 * 90);
    CHECK_INT(walk_bytes(registers, 24).end, ==, UNWIND_COPY_ROOT);
    struct unwind_copy_walk walk = walk_bytes(registers, 23);
    CHECK_INT(walk.end, ==, UNWIND_COPY_SHORT);
    CHECK_INT(walk.count, ==, 2);
    CHECK_INT(walk_bytes(registers, 7).count, ==, 1);
    CHECK_INT(walk_bytes(registers, 7).end, ==, UNWIND_COPY_SHORT);
    CHECK_INT(walk_bytes(registers, 0).end, ==, UNWIND_COPY_SHORT);
    words[10] = CODE + 0x150; /* needs rbp, which is above */
    CHECK_INT(walk_bytes(registers, 8 * 80).end, ==, UNWIND_COPY_SHORT);
}

TEST(a_walk_that_ends_early_has_its_reason) {
    begin();
    words[10] = CODE + 0x650;
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_RULE);
    words[10] = 0x1234567;
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_NO_CODE);
    words[10] = ~0ull;
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).end, ==, UNWIND_COPY_BAD_STACK);
    words[10] = CODE + 0x150;
    CHECK_INT(walk_from(CODE + 0x10, 10, STACK + 8).end, ==, UNWIND_COPY_BAD_STACK);
    CHECK_INT(walk_from(CODE + 0x790, 10, 0).end, ==, UNWIND_COPY_BAD_STACK);
    CHECK_INT(walk_from(0x1234567, 10, 0).end, ==, UNWIND_COPY_NO_CODE);
    CHECK_INT(walk_from(~0ull, 10, 0).count, ==, 0);
}

TEST(a_walk_ends_when_its_pcs_are_full) {
    begin();
    for (int i = 0; i < WORDS; i++)
        words[i] = CODE + 0x510;
    struct unwind_copy_walk walk = walk_from(CODE + 0x510, 0, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_DEPTH);
    CHECK_INT(walk.count, ==, 64);
    words[1 + 2 * 62] = CODE + 0x210; /* the root is the last that fits */
    walk = walk_from(CODE + 0x510, 0, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 64);
}

TEST(a_walk_waits_for_the_table_of_a_mapping) {
    begin();
    words[10] = LATER + 0x20;
    for (int i = 0; i < 2; i++) { /* the answer is not cached */
        struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, 0);
        CHECK_INT(walk.end, ==, UNWIND_COPY_WAITS);
        CHECK_INT(walk.waits_for, ==, LATER + 0x1f);
        CHECK_INT(walk.count, ==, 2);
    }
    words[10] = 0, words[20] = 0, words[21] = LATER + 0x20; /* plausible until it is known */
    struct unwind_copy_walk walk = walk_from(JIT + 5, 10, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_COPY_WAITS);
    CHECK_INT(walk.count, ==, 2);
}

/* The leaf returns to the trampoline, and the ucontext follows. */
static void interrupt(uint64_t pc, uint64_t sp) {
    words[10] = CODE + 0x701;
    ucontext_t *context = (ucontext_t *)&words[11];
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
    context->uc_mcontext.gregs[REG_RBP] = 1;
}

TEST(a_signal_frame_continues_with_the_interrupted_code) {
    begin();
    interrupt(CODE + 0x100, STACK + 8 * 200);
    words[200] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 4);
    CHECK(pcs[1] == ((CODE + 0x701) | UNWIND_COPY_EXACT)); /* nothing calls a trampoline */
    CHECK(pcs[2] == ((CODE + 0x100) | UNWIND_COPY_EXACT));
    CHECK_INT(pcs[3], ==, CODE + 0x210);
    words[10] = CODE + 0x700; /* its first byte; no function is before it */
    CHECK_INT(walk_from(CODE + 0x10, 10, 0).count, ==, 4);
    CHECK(pcs[1] == ((CODE + 0x700) | UNWIND_COPY_EXACT));
    words[10] = CODE + 0x701;
    CHECK_INT(walk_bytes(registers_at(CODE + 0x10, 10, 0), 64).end, ==, UNWIND_COPY_SHORT);
}

TEST(interrupted_code_on_another_stack_is_not_in_the_copy) {
    begin();
    uint64_t others[] = {STACK - (1 << 20), STACK - 8, STACK + (1 << 20), 1ull << 40};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        interrupt(CODE + 0x10, others[i]);
        struct unwind_copy_walk walk = walk_from(CODE + 0x10, 10, 0);
        CHECK_INT(walk.end, ==, UNWIND_COPY_SHORT);
        CHECK_INT(walk.count, ==, 3);
        CHECK(pcs[2] == ((CODE + 0x10) | UNWIND_COPY_EXACT));
    }
}

TEST(a_vsyscall_is_a_leaf) {
    begin();
    words[10] = CODE + 0x210;
    struct unwind_copy_walk walk = walk_from(VSYSCALL + 0x400, 10, 0);
    CHECK_INT(walk.end, ==, UNWIND_COPY_ROOT);
    CHECK_INT(walk.count, ==, 2);
    CHECK(pcs[0] == ((VSYSCALL + 0x400) & ~UNWIND_COPY_EXACT));
}

TEST(rules_are_cached_for_one_state_of_one_process) {
    begin();
    words[10] = CODE + 0x510, words[12] = CODE + 0x210;
    walk_from(CODE + 0x10, 10, 0);
    unsigned cold = finds;
    CHECK_INT(cold, ==, 3);
    walk_from(CODE + 0x10, 10, 0);
    CHECK_INT(finds, ==, cold);
    serial++;
    walk_from(CODE + 0x10, 10, 0);
    CHECK_INT(finds, ==, 2 * cold);
}

/* --- The same as the walk of another process -------------------------------------------------- */

static uint64_t copied_from;

static bool find_remote(void *context, uint64_t pc, struct unwind_code *code) {
    struct unwind_range range;
    if (find(NULL, pc, &range) != UNWIND_FOUND)
        return false;
    *code = (struct unwind_code){range.image, range.bias};
    return true;
}

static bool read_remote(void *context, uint64_t address, uint64_t *word) {
    if (address < copied_from || address > STACK + sizeof words - 8)
        return false;
    memcpy(word, (const uint8_t *)words + (address - STACK), 8);
    return true;
}

static bool ends_alike(enum unwind_copy_end ours, enum unwind_remote_end theirs) {
    static const enum unwind_remote_end alike[] = {
        [UNWIND_COPY_ROOT] = UNWIND_REMOTE_ROOT,
        [UNWIND_COPY_DEPTH] = UNWIND_REMOTE_DEPTH,
        [UNWIND_COPY_NO_CODE] = UNWIND_REMOTE_NO_CODE,
        [UNWIND_COPY_NO_TABLE] = UNWIND_REMOTE_NO_TABLE,
        [UNWIND_COPY_RULE] = UNWIND_REMOTE_RULE,
        [UNWIND_COPY_BAD_STACK] = UNWIND_REMOTE_BAD_STACK,
        [UNWIND_COPY_SHORT] = UNWIND_REMOTE_BAD_STACK,
    };
    return alike[ours] == theirs ||
           (ours == UNWIND_COPY_RULE && theirs == UNWIND_REMOTE_REGISTER) ||
           (ours == UNWIND_COPY_SHORT && theirs == UNWIND_REMOTE_NO_TABLE);
}

static void fill_words(uint64_t *seed) {
    for (int i = 0; i < WORDS; i++) {
        *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
        uint64_t pick = *seed >> 60;
        words[i] = pick < 4    ? CODE + *seed % 0xf0
                   : pick < 8  ? CODE + 0x105 + *seed % 0xe0
                   : pick < 9  ? CODE + *seed % 0x800
                   : pick < 14 ? STACK + (*seed % sizeof words & ~7ull)
                   : pick < 15 ? JIT + *seed % 0x1000
                               : *seed;
    }
}

TEST(walks_of_random_words_equal_those_of_another_process) {
    begin();
    uint64_t seed = 88172645463325252ull, theirs[64], long_walks = 0;
    const struct unwind_remote remote = {NULL, find_remote, read_remote};
    for (int round = 0; round < 30000; round++) {
        fill_words(&seed);
        struct unwind_registers registers = registers_at(
            CODE + seed % 0x800, (uint32_t)(seed >> 32) % 64, STACK + (seed >> 20) % sizeof words);
        registers.value[UNWIND_REG_RBX] = STACK + (seed >> 30) % sizeof words;
        copied_from = registers.value[UNWIND_REG_SP];
        /* Only we take a register that is saved in the red zone as restored. */
        if (registers.value[UNWIND_REG_PC] - CODE - 0x100 < 4 ||
            copied_from - registers.value[UNWIND_REG_FP] - 1 < UNWIND_RED_ZONE)
            continue;
        struct unwind_remote_walk other = {.pcs = theirs, .capacity = 64};
        struct unwind_copy_walk walk =
            walk_bytes(registers, STACK + sizeof words - registers.value[UNWIND_REG_SP]);
        unwind_remote_walk(&remote, &registers, &other);
        bool is_alike = walk.count == other.count && ends_alike(walk.end, other.end) &&
                        memcmp(pcs, theirs, 8 * walk.count) == 0;
        if (!is_alike)
            check_fail(__FILE__, __LINE__, "round %d: %u frames, end %u; remote %u, end %u", round,
                       walk.count, walk.end, other.count, other.end);
        long_walks += walk.count > 4;
    }
    CHECK_INT(long_walks, >, 200);
}
