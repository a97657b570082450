/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks of copied stacks of arm64, with artificial tables and words, on any machine. Each walk is
 * made twice: of the copy, and as that of another process. arm64_stacks_test.c walks over the
 * tables of real files. */
#include "service/unwind/copy/copy.h"
#include "service/unwind/remote/remote.h"
#include "service/unwind/step/step.h"
#include "service/unwind/table/rows.h"
#include "tests/unit/check.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define CODE  0x400000ull
#define JIT   (2 * CODE)
#define LATER (3 * CODE)
#define STACK 0xffff00000000ull
#define WORDS 256
#define SIGN  (0x35ull << 48) /* what pacia may leave in an address */

/* Functions at CODE. JIT code has no table; the table of LATER is not there yet. */
enum {
    LEAF = 0,
    RECORD = 0x100, /* sp + 32; the frame record at its bottom, x19 above it */
    ROOT = 0x200,
    BY_X19 = 0x300,  /* x19 + 64, stores x30 only */
    GAP = 0x400,     /* no function is known */
    BY_X29 = 0x500,  /* x29 + 16: the frame record at its top */
    COMPLEX = 0x600, /* no row can hold it */
    SIGNAL = 0x700,
    LINK = 0x740,    /* sp + 16, stores x30 only */
    IN_X9 = 0x780,   /* its return address is in x9 */
    LOSES = 0x7a0,   /* loses x30 */
    GO = 0x7c0,      /* sp + 32; stores x30 at sp and x29 below it */
    FORGETS = 0x7e0, /* sp + 32 as RECORD, but loses x19 */
    BARE = 0x7f0     /* no function is known, and none has a frame record, as in the vdso */
};

static struct sonde_buf table;
static uint64_t words[WORDS], pcs[64];
static struct unwind_walker *walker;
static uint64_t serial = 1;

static struct unwind_rule rule(uint8_t cfa, int32_t offset, int16_t frame, int16_t link) {
    return (struct unwind_rule){
        .cfa = cfa, .cfa_offset = offset, .arm64 = {.frame = frame, .link = link}};
}

static void add_rules(struct unwind_rows *rows) {
    struct unwind_rule record = rule(UNWIND_CFA_RSP, 32, -4, -3), forgets = record;
    struct unwind_rule by_x19 = rule(UNWIND_CFA_REG, 64, UNWIND_SAME, -1);
    struct unwind_rule complex = rule(UNWIND_CFA_NONE, 0, 0, 0);
    struct unwind_rule in_x9 = rule(UNWIND_CFA_RETURN, 0, UNWIND_SAME, UNWIND_LOST);
    struct unwind_rule signal = rule(UNWIND_CFA_SIGNAL, 128, 0, 0);
    struct unwind_rule loses = rule(UNWIND_CFA_RSP, 0, UNWIND_SAME, UNWIND_LOST);
    struct unwind_rule bare = rule(UNWIND_CFA_NONE, 0, 0, 0);
    struct unwind_rule rules[] = {rule(UNWIND_CFA_RSP, 0, UNWIND_SAME, UNWIND_SAME),
                                  record,
                                  rule(UNWIND_CFA_END, 0, 0, 0),
                                  by_x19,
                                  rule(UNWIND_CFA_NONE, 0, 0, 0),
                                  rule(UNWIND_CFA_RBP, 16, -2, -1),
                                  complex,
                                  signal,
                                  rule(UNWIND_CFA_RSP, 16, UNWIND_SAME, -2),
                                  in_x9,
                                  loses,
                                  rule(UNWIND_CFA_RSP, 32, -5, -4),
                                  forgets,
                                  bare};
    static const uint32_t at[] = {LEAF,   RECORD, ROOT,  BY_X19, GAP, BY_X29,  COMPLEX,
                                  SIGNAL, LINK,   IN_X9, LOSES,  GO,  FORGETS, BARE};
    rules[1].arm64.near[0] = 2;
    rules[3].cfa_register = UNWIND_REG_NEAR;
    rules[6].cfa_add = UNWIND_NONE_COMPLEX;
    rules[9].cfa_register = 9;
    rules[13].cfa_add = UNWIND_NONE_NO_POINTER;
    rules[12].arm64.near[0] = UNWIND_NEAR_LOST;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        unwind_rows_add(rows, at[i], &rules[i]);
    unwind_rows_gap(rows, 0x800);
}

static void begin(void) {
    struct unwind_rows rows;
    memset(words, 0, sizeof words);
    serial++;
    if (walker)
        return;
    unwind_rows_init(&rows);
    rows.machine = EM_AARCH64;
    rows.origin = 0;
    add_rules(&rows);
    CHECK_INT(unwind_rows_write(&rows, &table), ==, SONDE_OK);
    CHECK_INT(unwind_table_check_for(EM_AARCH64, table.data, table.len), ==, SONDE_OK);
    unwind_rows_finish(&rows);
    walker = unwind_walker_create();
    CHECK(walker != NULL);
}

/* --- both walks ------------------------------------------------------------------------------- */

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    *range = (struct unwind_range){CODE, CODE + 0x800, table.data, CODE};
    if (pc >= CODE && pc < CODE + 0x800)
        return UNWIND_FOUND;
    range->image = NULL;
    if (pc >= JIT && pc < JIT + 0x1000)
        return UNWIND_FOUND;
    return pc >= LATER && pc < LATER + 0x1000 ? UNWIND_LATER : UNWIND_NOT_CODE;
}

static bool find_remote(void *context, uint64_t pc, struct unwind_code *code) {
    struct unwind_range range;
    if (find(NULL, pc, &range) != UNWIND_FOUND)
        return false;
    *code = (struct unwind_code){range.image, range.bias};
    return true;
}

static uint64_t low;
static uint32_t text[0x800 / 4];

static bool read_remote(void *context, uint64_t address, uint64_t *word) {
    if (address - CODE <= sizeof text - 8) {
        memcpy(word, (const uint8_t *)text + (address - CODE), 8);
        return true;
    }
    if (address < low - 8 || address > STACK + sizeof words - 8)
        return false;
    memcpy(word, (const uint8_t *)words + (address - STACK), 8);
    return true;
}

static const struct unwind_remote remote = {NULL, find_remote, read_remote};
static struct unwind_remote_walk other;

static void walk_as_another_process(const struct unwind_registers *registers,
                                    const struct unwind_copy_walk *walk) {
    static uint64_t other_pcs[64];
    other = (struct unwind_remote_walk){.pcs = other_pcs, .capacity = 64};
    unwind_remote_walk(&remote, registers, &other);
    if (walk->end == UNWIND_COPY_WAITS || walk->end == UNWIND_COPY_SHORT)
        return;
    CHECK_INT(other.count, ==, walk->count);
    CHECK(memcmp(other_pcs, pcs, 8 * other.count) == 0);
    if (walk->end == UNWIND_COPY_ROOT && walk->pointer_frames == 0)
        CHECK_INT(other.end, ==, UNWIND_REMOTE_ROOT);
}

static struct unwind_copy_walk walk_bytes(const struct unwind_registers *registers, size_t bytes) {
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = 64};
    struct unwind_code_map map = {NULL, find, serial};
    low = registers->value[UNWIND_REG_SP];
    /* Exactly the bytes of the copy, so that a sanitizer sees every other read. */
    uint8_t *block = malloc(bytes + 1);
    CHECK(block != NULL);
    memcpy(block + 1, (const uint8_t *)words + (low - STACK), bytes);
    struct unwind_copy copy = {*registers, block + 1, bytes};
    unwind_copy_walk(walker, &map, &copy, &walk);
    free(block);
    CHECK_INT(walk.used_bytes, <=, bytes);
    walk_as_another_process(registers, &walk);
    return walk;
}

static uint64_t place(uint32_t word) {
    return STACK + 8ull * word;
}

static struct unwind_registers registers_at(uint64_t pc, uint32_t sp_word, uint64_t link,
                                            uint64_t fp) {
    struct unwind_registers registers = {.known = UNWIND_ALL_KNOWN};
    registers.value[UNWIND_REG_PC] = pc;
    registers.value[UNWIND_REG_SP] = place(sp_word);
    registers.value[UNWIND_REG_LINK] = link;
    registers.value[UNWIND_REG_FP] = fp;
    return registers;
}

static struct unwind_copy_walk walk_from(uint64_t pc, uint32_t sp_word, uint64_t link,
                                         uint64_t fp) {
    struct unwind_registers registers = registers_at(pc, sp_word, link, fp);
    return walk_bytes(&registers, 8 * (WORDS - sp_word));
}

static void put_record(uint32_t word, uint64_t fp, uint64_t address) {
    words[word] = fp;
    words[word + 1] = address;
}

#define CHECK_WALK(walk, why, depth)       \
    do {                                   \
        struct unwind_copy_walk it = walk; \
        CHECK_INT(it.end, ==, why);        \
        CHECK_INT(it.count, ==, depth);    \
    } while (0)

/* --- rules ------------------------------------------------------------------------------------ */

TEST(arm64_a_leaf_returns_to_its_x30) {
    begin();
    CHECK_WALK(walk_from(CODE + LEAF + 8, 10, CODE + ROOT + 4, 0), UNWIND_COPY_ROOT, 2);
    CHECK_INT(pcs[1], ==, CODE + ROOT + 4);
    CHECK_WALK(walk_from(CODE + LEAF + 8, 10, 0, 0), UNWIND_COPY_ROOT, 1);
    CHECK_WALK(walk_from(CODE + LEAF + 8, 10, 0x1234567, 0), UNWIND_COPY_NO_CODE, 2);
}

TEST(arm64_the_x30_of_a_caller_is_not_known) {
    begin();
    put_record(10, 0, CODE + LEAF + 8);
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, CODE + ROOT + 4, 0), UNWIND_COPY_RULE, 2);
    CHECK_INT(other.end, ==, UNWIND_REMOTE_REGISTER);
    CHECK_INT(other.wanted, ==, UNWIND_REG_LINK);
    CHECK_WALK(walk_from(CODE + LEAF + 8, 10, CODE + LEAF + 12, 0), UNWIND_COPY_RULE, 2);
}

TEST(arm64_frames_are_found_by_sp_and_by_x29) {
    begin();
    put_record(10, place(40), CODE + RECORD + 8);
    put_record(14, place(20), CODE + BY_X29 + 8);
    put_record(20, place(30), CODE + LINK + 8);
    words[22] = CODE + BY_X29 + 16;
    put_record(30, 0, CODE + ROOT + 4);
    struct unwind_copy_walk walk = walk_from(CODE + RECORD + 12, 10, 5, 7);
    CHECK_WALK(walk, UNWIND_COPY_ROOT, 6);
    CHECK_INT(walk.pointer_frames, ==, 0);
    CHECK_INT(walk.used_bytes, ==, 8 * (32 - 10));
    CHECK_INT(pcs[3], ==, CODE + LINK + 8);
    CHECK_INT(pcs[4], ==, CODE + BY_X29 + 16);
    CHECK_INT(other.at_end.value[UNWIND_REG_SP], ==, place(32));
}

/* The loop over frame records forgets x19, so the walk begins again. */
TEST(arm64_a_callee_saved_register_finds_a_frame_of_its_own) {
    begin();
    struct unwind_registers registers = registers_at(CODE + RECORD + 8, 10, 5, 0);
    put_record(10, 0, CODE + BY_X19 + 8);
    words[12] = place(40); /* x19 */
    words[47] = CODE + ROOT + 4;
    CHECK_WALK(walk_bytes(&registers, 8 * 100), UNWIND_COPY_ROOT, 3);
    CHECK_INT(pcs[2], ==, CODE + ROOT + 4);
    registers.value[UNWIND_REG_PC] = CODE + FORGETS + 8;
    CHECK_WALK(walk_bytes(&registers, 8 * 100), UNWIND_COPY_RULE, 2);
    CHECK_INT(other.wanted, ==, UNWIND_REG_NEAR);
    registers = registers_at(CODE + LEAF + 8, 10, CODE + BY_X19 + 8, 0);
    registers.value[UNWIND_REG_NEAR] = place(40);
    CHECK_WALK(walk_bytes(&registers, 8 * 100), UNWIND_COPY_ROOT, 3);
}

TEST(arm64_a_return_address_in_another_register_is_known_of_the_first_frame) {
    begin();
    struct unwind_registers registers = registers_at(CODE + IN_X9 + 8, 10, 5, 0);
    registers.value[9] = CODE + ROOT + 4;
    CHECK_WALK(walk_bytes(&registers, 800), UNWIND_COPY_ROOT, 2);
    put_record(10, 0, CODE + IN_X9 + 8);
    registers.value[UNWIND_REG_PC] = CODE + RECORD + 8;
    CHECK_WALK(walk_bytes(&registers, 800), UNWIND_COPY_RULE, 2);
}

/* Go's x29 points below its sp, at a word that the copy of the first frame does not have. */
TEST(arm64_frames_of_go_store_x29_below_their_sp) {
    begin();
    words[10] = CODE + GO + 8, words[13] = place(30);
    words[14] = CODE + BY_X29 + 8;
    put_record(30, 0, CODE + ROOT + 4);
    CHECK_WALK(walk_from(CODE + GO + 12, 10, 5, place(9)), UNWIND_COPY_ROOT, 4);
    CHECK_INT(pcs[3], ==, CODE + ROOT + 4);
}

TEST(arm64_a_walk_that_ends_early_has_its_reason) {
    begin();
    CHECK_WALK(walk_from(CODE + LOSES + 8, 10, CODE + ROOT, 0), UNWIND_COPY_RULE, 1);
    CHECK_WALK(walk_from(CODE + COMPLEX + 8, 10, CODE + ROOT, 0), UNWIND_COPY_RULE, 1);
    put_record(10, 0, ~0ull);
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, 5, 0), UNWIND_COPY_BAD_STACK, 1);
    CHECK_WALK(walk_from(CODE + BY_X29 + 8, 10, 5, place(2)), UNWIND_COPY_BAD_STACK, 1);
    CHECK_WALK(walk_from(CODE + BY_X29 + 8, 10, 5, place(WORDS)), UNWIND_COPY_SHORT, 1);
    put_record(10, 0, CODE + RECORD + 8);
    struct unwind_registers registers = registers_at(CODE + RECORD + 8, 10, 5, 0);
    CHECK_WALK(walk_bytes(&registers, 16), UNWIND_COPY_SHORT, 2);
    CHECK_WALK(walk_bytes(&registers, 15), UNWIND_COPY_SHORT, 1);
    CHECK_WALK(walk_bytes(&registers, 0), UNWIND_COPY_SHORT, 1);
}

TEST(arm64_signed_return_addresses_lose_their_signature) {
    begin();
    put_record(10, place(20), SIGN | (CODE + LINK + 8));
    words[14] = SIGN | (CODE + BY_X29 + 8);
    put_record(20, 0, SIGN | (CODE + ROOT + 4));
    CHECK_WALK(walk_from(CODE + LEAF + 8, 10, SIGN | (CODE + RECORD + 8), place(10)),
               UNWIND_COPY_ROOT, 5);
    for (int i = 0; i < 5; i++)
        CHECK_INT(pcs[i] >> 48, ==, 0);
    words[11] |= 1ull << 55; /* of an address in the kernel */
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, 5, 0), UNWIND_COPY_BAD_STACK, 1);
}

/* --- the search ------------------------------------------------------------------------------- */

/* Searches from BY_X29 for a frame whose return address is behind this instruction. */
static bool search_behind(uint32_t call, struct unwind_remote_walk *walk) {
    struct unwind_registers registers = registers_at(CODE + BY_X29 + 8, 10, 0, 0);
    registers.known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_PC;
    put_record(20, 0, SIGN | (CODE + ROOT + 4));
    text[ROOT / 4] = call;
    *walk = (struct unwind_remote_walk){.pcs = pcs, .capacity = 64};
    low = place(10);
    unwind_remote_walk(&remote, &registers, walk);
    CHECK_INT(walk->end, ==, UNWIND_REMOTE_REGISTER);
    bool is_found = unwind_remote_search(&remote, walk);
    text[ROOT / 4] = 0;
    return is_found;
}

TEST(arm64_a_search_finds_a_signed_return_address_behind_a_call) {
    struct unwind_remote_walk walk;
    begin();
    CHECK(search_behind(0xd63f0100, &walk)); /* blr x8 */
    CHECK_INT(walk.end, ==, UNWIND_REMOTE_ROOT);
    CHECK_INT(walk.count, ==, 2);
    CHECK_INT(pcs[1], ==, CODE + ROOT + 4);
}

/* Entries of the linkage table have the rule of any function's entry, so their code decides. */
TEST(arm64_a_direct_call_of_another_function_only_counts_if_its_code_is_a_linkage_stub) {
    static const struct {
        uint32_t callee, code[2];
        bool is_found;
    } rows[] = {
        {LEAF, {0x90000090, 0xf9400e11}, true},    /* adrp x16; ldr x17, [x16, #24] */
        {LEAF, {0xd503245f, 0x90000090}, true},    /* bti c; adrp x16 */
        {LEAF, {0x90000091, 0xf9400e11}, false},   /* adrp x17 */
        {LEAF, {0xd503201f, 0xd65f03c0}, false},   /* nop; ret */
        {RECORD, {0x90000090, 0xf9400e11}, false}, /* not the entry of a function */
        {BY_X29, {0xd503201f, 0xd65f03c0}, false}, /* holds pc, but does not begin a function */
    };
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct unwind_remote_walk walk;
        uint32_t words_to = (rows[i].callee - ROOT) / 4 & 0x3ffffff;
        memcpy(&text[rows[i].callee / 4], rows[i].code, sizeof rows[i].code);
        if (search_behind(0x94000000 | words_to, &walk) != rows[i].is_found)
            check_fail(__FILE__, __LINE__, "row %zu", i);
        memset(&text[rows[i].callee / 4], 0, sizeof rows[i].code);
    }
}

/* --- signals ---------------------------------------------------------------------------------- */

/* The handler returns to the trampoline: siginfo is at sp, the ucontext 128 bytes above it. */
static void interrupt(uint32_t sp_word, const struct unwind_registers *registers) {
    memcpy(&words[sp_word + (128 + 184) / 8], registers->value, sizeof registers->value);
}

TEST(arm64_a_signal_frame_has_all_registers_of_the_interrupted_code) {
    begin();
    struct unwind_registers registers =
        registers_at(CODE + LEAF, 200, CODE + BY_X29 + 8, place(210));
    interrupt(14, &registers);
    put_record(210, 0, CODE + ROOT + 4);
    put_record(10, 0, CODE + SIGNAL); /* its first byte, behind another function */
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, 5, 0), UNWIND_COPY_ROOT, 5);
    words[11] = CODE + SIGNAL + 4;
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, 5, 0), UNWIND_COPY_ROOT, 5);
    CHECK(pcs[1] == ((CODE + SIGNAL + 4) | UNWIND_COPY_EXACT));
    CHECK(pcs[2] == ((CODE + LEAF) | UNWIND_COPY_EXACT));
    CHECK_INT(pcs[3], ==, CODE + BY_X29 + 8);
    CHECK_INT(pcs[4], ==, CODE + ROOT + 4);
}

TEST(arm64_a_signal_frame_is_not_read_if_sp_is_not_known) {
    begin();
    struct unwind_registers registers = registers_at(CODE + ROOT + 4, 200, 5, 0);
    put_record(12, place(30), CODE + SIGNAL + 4);
    interrupt(14, &registers); /* where sp would be if the record were at the end of its frame */
    CHECK_WALK(walk_from(JIT + 8, 10, JIT + 4, place(12)), UNWIND_COPY_RULE, 2);
    CHECK_INT(other.wanted, ==, UNWIND_REG_SP);
}

/* --- code without a rule ---------------------------------------------------------------------- */

/* A frame record says nothing of its frame's sp. The caller's own record does. */
TEST(arm64_a_caller_of_code_without_a_table_is_found_by_its_frame_record) {
    begin();
    static const uint64_t codes[] = {JIT, CODE + GAP};
    for (size_t i = 0; i < 2; i++) {
        put_record(12, place(30), CODE + RECORD + 8);
        put_record(30, 0, CODE + ROOT + 4);
        struct unwind_copy_walk walk = walk_from(codes[i] + 8, 10, codes[i] + 4, place(12));
        CHECK_WALK(walk, UNWIND_COPY_ROOT, 3);
        CHECK_INT(walk.pointer_frames, ==, 1);
        CHECK_INT(other.at_end.value[UNWIND_REG_SP], ==, place(34));
    }
    put_record(12, place(30), CODE + LINK + 8); /* which has none, and sp is not known */
    CHECK_WALK(walk_from(JIT + 8, 10, JIT + 4, place(12)), UNWIND_COPY_RULE, 2);
    CHECK_INT(other.wanted, ==, UNWIND_REG_SP);
    put_record(12, place(30), CODE + BY_X29 + 8);
    CHECK_WALK(walk_from(JIT + 8, 10, JIT + 4, place(12)), UNWIND_COPY_ROOT, 3);
}

TEST(arm64_assembler_code_that_c_has_called_returns_to_its_x30) {
    begin();
    put_record(30, 0, CODE + ROOT + 4);
    CHECK_WALK(walk_from(JIT + 8, 10, SIGN | (CODE + RECORD + 8), place(30)), UNWIND_COPY_ROOT, 3);
    CHECK_INT(pcs[1], ==, CODE + RECORD + 8);
    put_record(12, place(30), CODE + RECORD + 8); /* it has a frame, too */
    CHECK_WALK(walk_from(JIT + 8, 10, CODE + RECORD + 8, place(12)), UNWIND_COPY_ROOT, 3);
    CHECK_WALK(walk_from(JIT + 8, 10, CODE + ROOT + 4, 0), UNWIND_COPY_ROOT, 2);
    CHECK_WALK(walk_from(JIT + 8, 10, 5, 0), UNWIND_COPY_NO_TABLE, 1);
    CHECK_WALK(walk_from(JIT + 8, 10, LATER + 8, place(12)), UNWIND_COPY_WAITS, 1);
    CHECK_WALK(walk_from(CODE + BARE + 4, 10, CODE + RECORD + 8, place(30)), UNWIND_COPY_ROOT, 3);
    CHECK_WALK(walk_from(CODE + BARE + 4, 10, JIT + 8, place(12)), UNWIND_COPY_NO_TABLE, 1);
    put_record(10, place(12), CODE + BARE + 8); /* of a caller it is not */
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, CODE + RECORD, 0), UNWIND_COPY_NO_TABLE, 2);
}

TEST(arm64_a_leaf_with_a_symbol_and_no_rule_returns_to_its_x30) {
    begin();
    put_record(30, 0, CODE + ROOT + 4);
    CHECK_WALK(walk_from(CODE + BARE + 8, 10, CODE + RECORD + 8, place(30)), UNWIND_COPY_ROOT, 3);
    CHECK_INT(pcs[1], ==, CODE + RECORD + 8);
    CHECK_WALK(walk_from(CODE + BARE + 8, 10, CODE + BARE + 4, place(30)), UNWIND_COPY_NO_TABLE, 1);
    put_record(10, 0, CODE + BARE + 8); /* which is not the innermost frame */
    CHECK_WALK(walk_from(CODE + RECORD + 8, 10, CODE + RECORD + 8, 0), UNWIND_COPY_NO_TABLE, 2);
}

TEST(arm64_x29_that_does_not_point_at_a_frame_record_finds_no_caller) {
    begin();
    put_record(12, place(30), CODE + RECORD + 8);
    put_record(30, place(20), CODE + ROOT + 4); /* its caller's record would be below it */
    CHECK_WALK(walk_from(JIT + 8, 10, JIT + 4, place(12)), UNWIND_COPY_RULE, 2);
    CHECK_INT(other.wanted, ==, UNWIND_REG_SP);
}

TEST(arm64_an_implausible_frame_record_is_not_followed) {
    begin();
    put_record(12, place(30), CODE + ROOT + 4);
    CHECK_WALK(walk_from(JIT + 8, 10, 5, place(12)), UNWIND_COPY_ROOT, 2);
    CHECK_WALK(walk_from(JIT + 8, 10, 5, place(12) + 4), UNWIND_COPY_NO_TABLE, 1);
    CHECK_WALK(walk_from(JIT + 8, 16, 5, place(12)), UNWIND_COPY_NO_TABLE, 1); /* below sp */
    CHECK_WALK(walk_from(JIT + 8, 10, 5, place(WORDS - 1)), UNWIND_COPY_SHORT, 1);
    put_record(12, place(30), 0x1234567);
    CHECK_WALK(walk_from(JIT + 8, 10, 5, place(12)), UNWIND_COPY_NO_TABLE, 1);
}

TEST(arm64_a_chain_of_frame_records_ends_with_zero_at_its_root) {
    begin();
    put_record(12, place(20), JIT + 0x10);
    put_record(20, 0, JIT + 0x20);
    CHECK_WALK(walk_from(JIT + 8, 10, JIT + 4, place(12)), UNWIND_COPY_ROOT, 3);
}

/* --- any words -------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252ull;

static uint64_t any(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    uint64_t pick = seed >> 60;
    return pick < 7    ? CODE + (seed >> 20 & 0x7fc)
           : pick < 9  ? JIT + (seed >> 20 & 0xffc)
           : pick < 14 ? place((uint32_t)(seed >> 20 & 0xff))
                       : seed;
}

TEST(arm64_walks_of_random_words_end_and_read_nothing_else) {
    begin();
    unsigned long roots = 0;
    for (int round = 0; round < 20000; round++) {
        struct unwind_registers registers = {.known = UNWIND_ALL_KNOWN};
        struct unwind_copy_walk walk = {.pcs = pcs, .capacity = 64};
        struct unwind_code_map map = {NULL, find, serial};
        for (int i = 0; i < WORDS; i++)
            words[i] = any();
        for (uint32_t i = 0; i < UNWIND_REGISTERS; i++)
            registers.value[i] = any();
        registers.value[UNWIND_REG_SP] = low = STACK;
        size_t bytes = seed % sizeof words;
        uint8_t *block = malloc(bytes + 1);
        memcpy(block, words, bytes);
        struct unwind_copy copy = {registers, block, bytes};
        unwind_copy_walk(walker, &map, &copy, &walk);
        free(block);
        CHECK_INT(walk.count, <=, 64);
        CHECK_INT(walk.end, <, UNWIND_COPY_ENDS);
        CHECK_INT(walk.used_bytes, <=, bytes);
        roots += walk.end == UNWIND_COPY_ROOT && walk.count > 2;
    }
    CHECK_INT(roots, >, 0);
}
