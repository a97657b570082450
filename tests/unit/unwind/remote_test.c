/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks of another process's stack, with artificial tables and words. Reading from a real process
 * is in tracee_test.c. */
#include "service/unwind/remote/remote.h"
#include "service/unwind/table/rows.h"
#include "tests/unit/check.h"

#include <string.h>
#include <ucontext.h>

#define CODE  0x400000ull
#define STACK 0x7f0000000000ull
#define WORDS 256

/* At CODE: a leaf (rsp + 8), at + 0x100 a function with a frame pointer, at + 0x200 the root,
 * at + 0x300 a function that finds its frame from rbx, at + 0x400 a gap, at + 0x700 a signal
 * trampoline, at + 0x7f0 an entry of the linkage table. From 2 * CODE on there is JIT code. */
static struct sonde_buf table;
static uint64_t words[WORDS];
static uint8_t text[0x800];

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

static void build(void) {
    struct unwind_rows rows;
    struct unwind_rule by_rbx = rule(UNWIND_CFA_REG, 16, UNWIND_SAME);
    struct unwind_rule complex = rule(UNWIND_CFA_NONE, 0, UNWIND_SAME);
    by_rbx.cfa_register = 3;
    complex.cfa_add = UNWIND_NONE_COMPLEX;
    memset(words, 0, sizeof words);
    memset(text, 0x90, sizeof text);
    if (table.len)
        return;
    unwind_rows_init(&rows);
    rows.origin = 0;
    add(&rows, 0, rule(UNWIND_CFA_RSP, 8, UNWIND_SAME));
    unwind_rows_gap(&rows, 0xf0);
    add(&rows, 0x100, rule(UNWIND_CFA_RSP, 8, UNWIND_SAME));
    add(&rows, 0x104, rule(UNWIND_CFA_RBP, 16, -16));
    unwind_rows_gap(&rows, 0x1f0);
    add(&rows, 0x200, rule(UNWIND_CFA_END, 0, UNWIND_SAME));
    unwind_rows_gap(&rows, 0x2f0);
    add(&rows, 0x300, by_rbx);
    unwind_rows_gap(&rows, 0x3f0);
    add(&rows, 0x500, rule(UNWIND_CFA_RSP, 16, UNWIND_SAME));
    add(&rows, 0x600, complex);
    add(&rows, 0x700, rule(UNWIND_CFA_SIGNAL, 0, UNWIND_SAME));
    unwind_rows_gap(&rows, 0x740);
    add(&rows, 0x7f0, rule(UNWIND_CFA_PLT, 8, UNWIND_SAME));
    unwind_rows_gap(&rows, 0x800);
    CHECK_INT(unwind_rows_write(&rows, &table), ==, SONDE_OK);
    unwind_rows_finish(&rows);
}

static bool find(void *context, uint64_t pc, struct unwind_code *code) {
    *code = (struct unwind_code){.image = pc < 2 * CODE ? table.data : NULL, .bias = CODE};
    return (pc >= CODE && pc < CODE + sizeof text) || (pc >= 2 * CODE && pc < 2 * CODE + 0x1000);
}

static bool read_word(void *context, uint64_t address, uint64_t *word) {
    const char *from = address >= STACK ? (const char *)words + (address - STACK)
                                        : (const char *)text + (address - CODE);
    uint64_t room = address >= STACK ? STACK + sizeof words : CODE + sizeof text;
    if (address < CODE || address + 8 > room)
        return false;
    memcpy(word, from, 8);
    return true;
}

static const struct unwind_remote remote = {NULL, find, read_word};
static uint64_t pcs[64];

static struct unwind_remote_walk walk_from(uint64_t pc, uint32_t sp_word, bool has_rbp,
                                           uint64_t rbp) {
    struct unwind_remote_walk walk = {.pcs = pcs, .capacity = 64};
    struct unwind_registers registers = {.known = 1u << 7 | 1u << 16 | (has_rbp ? 1u << 6 : 0)};
    registers.value[UNWIND_REG_PC] = pc;
    registers.value[UNWIND_REG_SP] = STACK + 8 * sp_word;
    registers.value[UNWIND_REG_FP] = rbp;
    unwind_remote_walk(&remote, &registers, &walk);
    return walk;
}

/* "call target" whose return address is CODE + at. */
static uint64_t call(uint32_t at, uint32_t target) {
    int32_t offset = (int32_t)(target - at);
    text[at - 5] = 0xe8;
    memcpy(&text[at - 4], &offset, 4);
    return CODE + at;
}

TEST(a_leaf_returns_to_the_root) {
    build();
    words[10] = CODE + 0x210;
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 2);
    CHECK_INT(pcs[1], ==, CODE + 0x210);
}

TEST(a_known_frame_pointer_is_followed) {
    build();
    words[10] = CODE + 0x150;
    words[20] = 0, words[21] = CODE + 0x210;
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, true, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 3);
}

TEST(an_unknown_register_that_is_needed_ends_the_walk_and_is_named) {
    build();
    words[10] = CODE + 0x150;
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_REGISTER);
    CHECK_INT(walk.wanted, ==, UNWIND_REG_FP);
    CHECK_INT(walk.count, ==, 2);
    words[10] = CODE + 0x350;
    walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_REGISTER);
    CHECK_INT(walk.wanted, ==, 3);
    CHECK(!unwind_remote_search(&remote, &walk));
}

TEST(the_search_finds_the_frame_whose_return_address_follows_a_call_of_the_function) {
    build();
    words[10] = CODE + 0x150;
    /* An old return address of a call of another function, from where a walk would reach the root,
     * too. */
    words[15] = STACK + 8 * 30, words[16] = call(0x240, 0x0);
    words[20] = 0, words[21] = call(0x260, 0x100);
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK(unwind_remote_search(&remote, &walk));
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.guessed, ==, 1);
    CHECK_INT(walk.count, ==, 3);
    CHECK_INT(pcs[2], ==, CODE + 0x260);
}

TEST(the_search_knows_an_entry_of_the_linkage_table_without_reading_it) {
    build();
    uint64_t word, entry = CODE + 0x7fc;
    CHECK(!read_word(NULL, entry, &word));
    words[10] = CODE + 0x150;
    words[20] = 0, words[21] = call(0x260, (uint32_t)(entry - CODE));
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK(unwind_remote_search(&remote, &walk));
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(pcs[2], ==, CODE + 0x260);
}

TEST(a_search_without_success_does_not_change_the_walk) {
    build();
    words[10] = CODE + 0x150;
    for (int i = 12; i < 200; i += 2) /* calls of this function from frames that form a cycle */
        words[i] = STACK + 8 * 12, words[i + 1] = call(0x180, 0x100);
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK(!unwind_remote_search(&remote, &walk));
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_REGISTER);
    CHECK_INT(walk.count, ==, 2);
    CHECK_INT(walk.guessed, ==, 0);
}

TEST(code_without_a_table_is_left_by_its_frame_pointer) {
    build();
    words[20] = STACK + 8 * 30, words[21] = CODE + 0x210;
    struct unwind_remote_walk walk = walk_from(2 * CODE + 5, 10, true, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 2);
    walk = walk_from(2 * CODE + 5, 10, true, STACK + 8 * 2); /* below rsp */
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_NO_TABLE);
}

TEST(code_between_functions_is_left_by_its_frame_pointer_too) {
    build();
    words[20] = STACK + 8 * 30, words[21] = CODE + 0x210;
    struct unwind_remote_walk walk = walk_from(CODE + 0x410, 10, true, STACK + 8 * 20);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 2);
}

/* The byte before CODE + 0x100 belongs to no function: only an exact look-up finds the rule. */
TEST(code_interrupted_at_a_functions_first_instruction_is_looked_up_there) {
    build();
    words[10] = CODE + 0x701; /* the leaf returns to the trampoline, and the ucontext follows */
    ucontext_t *context = (ucontext_t *)&words[11];
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(CODE + 0x100);
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(STACK + 8 * 200);
    context->uc_mcontext.gregs[REG_RBP] = 1;
    words[200] = CODE + 0x210;
    struct unwind_remote_walk walk = walk_from(CODE + 0x10, 10, false, 0);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 4);
    CHECK(pcs[2] == ((CODE + 0x100) | UNWIND_REMOTE_EXACT));
    CHECK_INT(pcs[3], ==, CODE + 0x210);
}

TEST(a_walk_that_ends_early_has_its_reason) {
    build();
    words[10] = CODE + 0x401;
    CHECK_INT(walk_from(CODE + 0x10, 10, true, 0).end, ==, UNWIND_REMOTE_NO_TABLE);
    words[10] = CODE + 0x650;
    CHECK_INT(walk_from(CODE + 0x10, 10, true, 0).end, ==, UNWIND_REMOTE_RULE);
    words[10] = 0x1234567;
    CHECK_INT(walk_from(CODE + 0x10, 10, true, 0).end, ==, UNWIND_REMOTE_NO_CODE);
    words[10] = ~0ull;
    CHECK_INT(walk_from(CODE + 0x10, 10, true, 0).end, ==, UNWIND_REMOTE_BAD_STACK);
    CHECK_INT(walk_from(CODE + 0x10, WORDS, true, 0).end, ==, UNWIND_REMOTE_BAD_STACK);
    words[10] = 0;
    CHECK_INT(walk_from(CODE + 0x10, 10, true, 0).end, ==, UNWIND_REMOTE_ROOT);
}

TEST(a_walk_ends_when_its_pcs_are_full) {
    build();
    for (int i = 0; i < WORDS; i++)
        words[i] = CODE + 0x510;
    struct unwind_remote_walk walk = walk_from(CODE + 0x510, 0, true, 0);
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_DEPTH);
    CHECK_INT(walk.count, ==, 64);
}

TEST(walks_and_searches_of_random_words_end) {
    build();
    uint64_t seed = 88172645463325252ull;
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < WORDS; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            uint64_t pick = seed >> 60;
            words[i] = pick < 6    ? CODE + seed % sizeof text
                       : pick < 12 ? STACK + seed % sizeof words
                       : pick < 14 ? 2 * CODE + seed % 0x1000
                                   : seed;
        }
        struct unwind_remote_walk walk = walk_from(CODE + seed % 0x600, (uint32_t)(seed >> 32) % 64,
                                                   seed & 1, STACK + seed % sizeof words);
        CHECK(walk.count <= 64);
        if (walk.end == UNWIND_REMOTE_REGISTER && unwind_remote_search(&remote, &walk))
            CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    }
}
