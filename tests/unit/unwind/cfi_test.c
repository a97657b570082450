/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame programs written by hand: the bytes of a section, and the rules that the table then
 * has for a pc. */
#include "service/machine/machine.h"
#include "service/unwind/cfi/fde_reader.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"

#define ORIGIN  0x10000u
#define SECTION 0x50000u
#define TEXT    0x100000u /* bytes of code */

/* advance, offset, restore in their short forms */
#define ADVANCE(n)        (0x40 | (n))
#define OFFSET(reg, by8)  (0x80 | (reg)), (by8)
#define RESTORE(reg)      (0xc0 | (reg))
#define DEF_CFA(reg, off) 0x0c, (reg), (off)
#define CFA_OFFSET(off)   0x0e, (off)
#define CFA_REGISTER(reg) 0x0d, (reg)
#define REMEMBER          0x0a
#define RECALL            0x0b
#define UNDEFINED(reg)    0x07, (reg)

static uint8_t section[8192];
static size_t section_len;
static size_t cie_at;
static struct sonde_buf image;
static uint32_t complex_rows;

static void put(const void *bytes, size_t len) {
    memcpy(section + section_len, bytes, len);
    section_len += len;
}

static void put32(uint32_t value) {
    put(&value, 4);
}

static void put_record_len(size_t at) {
    while (section_len % 4)
        section[section_len++] = 0;
    uint32_t len = (uint32_t)(section_len - at - 4);
    memcpy(section + at, &len, 4);
}

/* A CIE with code align 1, data align -8, return register 16, augmentation and initial
 * instructions. */
static void put_cie(const char *letters, const void *data, size_t data_len, const void *code,
                    size_t code_len) {
    cie_at = section_len;
    put32(0);
    put32(0);
    put("\1", 1);
    put(letters, strlen(letters) + 1);
    put("\x01\x78\x10", 3);
    put(data, data_len);
    put(code, code_len);
    put_record_len(cie_at);
}

/* The CIE of nearly every compiler: zR, pcrel sdata4; CFA = rsp + 8, return address at CFA - 8. */
static void put_usual_cie(void) {
    static const uint8_t code[] = {DEF_CFA(7, 8), OFFSET(16, 1)};
    section_len = 0;
    put_cie("zR", "\x01\x1b", 2, code, sizeof code);
}

static void put_fde(uint32_t start, uint32_t len, const uint8_t *code, size_t code_len) {
    size_t at = section_len;
    put32(0);
    put32((uint32_t)(at + 4 - cie_at));
    put32(ORIGIN + start - (SECTION + (uint32_t)at + 8));
    put32(len);
    put("", 1); /* no augmentation data */
    put(code, code_len);
    put_record_len(at);
}

#define FDE(start, len, ...)                            \
    do {                                                \
        const uint8_t fde_code[] = {__VA_ARGS__};       \
        put_fde(start, len, fde_code, sizeof fde_code); \
    } while (0)

static sonde_err compile(void) {
    struct frames frames = {
        .machine = machine_of(EM_X86_64)->cfi, .origin = ORIGIN, .range_count = 1};
    struct unwind_rows rows;
    struct cfi_section where = {.data = section, .size = section_len, .vaddr = SECTION};
    frames.ranges[0].end = TEXT;
    sonde_buf_finish(&image);
    unwind_rows_init(&rows);
    rows.origin = ORIGIN;
    sonde_err err = unwind_frames_add(&frames, &where, false);
    if (err == SONDE_OK)
        err = unwind_frames_run(&frames, &rows);
    if (err == SONDE_OK)
        err = unwind_rows_write(&rows, &image);
    complex_rows = rows.complex_rows;
    unwind_rows_finish(&rows);
    unwind_frames_finish(&frames);
    if (err == SONDE_OK)
        err = unwind_table_check(image.data, image.len);
    return err;
}

static const struct unwind_rule *at(uint32_t offset) {
    return modules_rule(&image, ORIGIN + offset);
}

TEST(push_and_pop_of_rbp_move_the_cfa) {
    put_usual_cie();
    FDE(0x100, 0x40, ADVANCE(1), CFA_OFFSET(16), OFFSET(6, 2), ADVANCE(3), CFA_REGISTER(6),
        ADVANCE(0x20), DEF_CFA(7, 8));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x100)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(0x100)->cfa_offset, ==, 8);
    CHECK_INT(at(0x100)->saved[UNWIND_RBP], ==, UNWIND_SAME);
    CHECK_INT(at(0x101)->cfa_offset, ==, 16);
    CHECK_INT(at(0x101)->saved[UNWIND_RBP], ==, -16);
    CHECK_INT(at(0x103)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(0x104)->cfa, ==, UNWIND_CFA_RBP);
    CHECK_INT(at(0x123)->cfa, ==, UNWIND_CFA_RBP);
    CHECK_INT(at(0x124)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(0x13f)->cfa_offset, ==, 8);
    CHECK_INT(at(0x140)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at(0xff)->cfa, ==, UNWIND_CFA_NONE);
}

TEST(remember_and_restore_nest) {
    put_usual_cie();
    FDE(0, 0x40, ADVANCE(1), CFA_OFFSET(16), REMEMBER, ADVANCE(1), CFA_OFFSET(24), OFFSET(3, 3),
        REMEMBER, ADVANCE(1), CFA_OFFSET(32), ADVANCE(1), RECALL, ADVANCE(1), RECALL);
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(3)->cfa_offset, ==, 32);
    CHECK_INT(at(4)->cfa_offset, ==, 24);
    CHECK_INT(at(4)->saved[UNWIND_RBX], ==, -24);
    CHECK_INT(at(5)->cfa_offset, ==, 16);
    CHECK_INT(at(5)->saved[UNWIND_RBX], ==, UNWIND_SAME);
}

TEST(restore_takes_the_rule_of_the_cie) {
    static const uint8_t code[] = {DEF_CFA(7, 8), OFFSET(16, 1), OFFSET(12, 4)};
    section_len = 0;
    put_cie("zR", "\x01\x1b", 2, code, sizeof code);
    FDE(0, 0x20, ADVANCE(1), OFFSET(12, 2), ADVANCE(1), RESTORE(12), ADVANCE(1), 0x06, 12);
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->saved[UNWIND_R12], ==, -32);
    CHECK_INT(at(1)->saved[UNWIND_R12], ==, -16);
    CHECK_INT(at(2)->saved[UNWIND_R12], ==, -32);
}

TEST(undefined_return_address_is_the_root) {
    put_usual_cie();
    FDE(0, 0x10, UNDEFINED(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_END);
    CHECK_INT(at(15)->cfa, ==, UNWIND_CFA_END);
}

TEST(plt_expression_becomes_the_plt_rule) {
    put_usual_cie();
    FDE(0, 0x100, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x20)->cfa, ==, UNWIND_CFA_PLT);
    CHECK_INT(at(0x20)->cfa_add, ==, 11);
}

TEST(realigned_stacks_become_deref_rules) {
    put_usual_cie();
    FDE(0, 0x40, 0x0f, 3, 0x76, 0x78, 0x06, ADVANCE(8), /* *(rbp - 8) */
        0x0f, 6, 0x77, 0x98, 0x01, 0x06, 0x23, 8);      /* *(rsp + 152) + 8 */
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_DEREF);
    CHECK_INT(at(0)->cfa_register, ==, 6);
    CHECK_INT(at(0)->cfa_offset, ==, -8);
    CHECK_INT(at(0)->cfa_add, ==, 0);
    CHECK_INT(at(8)->cfa_register, ==, 7);
    CHECK_INT(at(8)->cfa_offset, ==, 152);
    CHECK_INT(at(8)->cfa_add, ==, 8);
}

TEST(expression_of_register_and_offset_is_a_register_rule) {
    put_usual_cie();
    FDE(0, 0x40, 0x0f, 2, 0x7a, 0x10); /* r10 + 16 */
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_REG);
    CHECK_INT(at(0)->cfa_register, ==, 10);
    CHECK_INT(at(0)->cfa_offset, ==, 16);
}

TEST(signal_trampoline_is_recognised_by_its_expressions) {
    static const uint8_t code[] = {0x00};
    section_len = 0;
    put_cie("zRS", "\x01\x1b", 2, code, sizeof code);
    FDE(0x10, 0x10, 0x0f, 4, 0x77, 0xa0, 0x01, 0x06, /* CFA = *(rsp + 160) */
        0x10, 6, 3, 0x77, 0xf8, 0x00,                /* rbp at rsp + 120 */
        0x10, 7, 3, 0x77, 0xa0, 0x01,                /* rsp at rsp + 160 */
        0x10, 16, 3, 0x77, 0xa8, 0x01);              /* rip at rsp + 168 */
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x10)->cfa, ==, UNWIND_CFA_SIGNAL);
    CHECK_INT(at(0x10)->cfa_offset, ==, 0);
}

TEST(rules_too_complex_for_a_row_are_counted) {
    put_usual_cie();
    FDE(0, 0x40, ADVANCE(4), 0x0f, 1, 0x9c, /* DW_OP_call_frame_cfa: no rule can hold it */
        ADVANCE(4), DEF_CFA(7, 8), ADVANCE(4), 0x14, 16, 0 /* return address: CFA */);
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(4)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at(8)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(12)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(complex_rows, ==, 2);
}

/* As in vfork. */
TEST(a_return_address_may_be_in_a_register) {
    put_usual_cie();
    FDE(0, 0x40, ADVANCE(1), CFA_OFFSET(0), 0x09, 16, 5, ADVANCE(8), CFA_OFFSET(8));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(1)->cfa, ==, UNWIND_CFA_RETURN);
    CHECK_INT(at(1)->cfa_register, ==, 5);
    CHECK_INT(at(1)->cfa_offset, ==, 0);
    CHECK_INT(at(9)->cfa, ==, UNWIND_CFA_RETURN);
    CHECK_INT(at(9)->cfa_offset, ==, 8);
}

TEST(a_register_saved_too_far_away_is_lost_but_its_frame_has_a_rule) {
    put_usual_cie();
    FDE(0, 0x40, 0x05, 6, 0xff, 0xff, 0x03); /* rbp at CFA - 524,280 */
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(0)->saved[UNWIND_RBP], ==, UNWIND_LOST);
}

TEST(equal_neighbours_are_one_row_and_equal_rules_one_rule) {
    put_usual_cie();
    FDE(0, 0x10, ADVANCE(4), CFA_OFFSET(8), ADVANCE(4), CFA_OFFSET(16), ADVANCE(4), CFA_OFFSET(8));
    FDE(0x10, 0x10, ADVANCE(4), CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    const struct unwind_header *header = (const struct unwind_header *)image.data;
    CHECK_INT(header->row_count, ==, 4); /* 8 | 16 | 8, which continues in the next function | 16 */
    CHECK_INT(header->rule_count, ==, 4);
    CHECK_INT(header->fde_count, ==, 2);
    CHECK_INT(header->covered_bytes, ==, 0x20);
}

TEST(unsorted_functions_are_sorted_and_overlaps_resolved) {
    put_usual_cie();
    FDE(0x200, 0x100, CFA_OFFSET(32));
    FDE(0x100, 0x200, CFA_OFFSET(16)); /* cut at 0x200 */
    FDE(0x200, 0x300, CFA_OFFSET(48)); /* the same start as an earlier one: dropped */
    FDE(TEXT, 0x10, CFA_OFFSET(64));   /* outside of the code: dropped */
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x1ff)->cfa_offset, ==, 16);
    CHECK_INT(at(0x200)->cfa_offset, ==, 32);
    CHECK_INT(at(0x2ff)->cfa_offset, ==, 32);
    CHECK_INT(at(0x300)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(((const struct unwind_header *)image.data)->fde_count, ==, 2);
}

TEST(a_function_longer_than_its_text_ends_with_the_text) {
    static const uint32_t lengths[] = {0x41, 0x1000, 0x7fffffff, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_usual_cie();
        FDE(0x100, 0x40, CFA_OFFSET(16));
        FDE(TEXT - 0x40, lengths[i], CFA_OFFSET(32));
        CHECK_INT(compile(), ==, SONDE_OK);
        const struct unwind_header *header = (const struct unwind_header *)image.data;
        CHECK_INT(header->base + header->text_bytes, ==, ORIGIN + TEXT);
        CHECK_INT(header->covered_bytes, ==, 0x80);
        CHECK_INT(at(TEXT - 1)->cfa_offset, ==, 32);
        CHECK_INT(at(TEXT)->cfa, ==, UNWIND_CFA_NONE);
    }
}

TEST(a_function_as_long_as_its_text_is_whole_and_an_empty_one_is_none) {
    put_usual_cie();
    FDE(TEXT - 0x40, 0x40, CFA_OFFSET(32));
    FDE(0x100, 0, CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    const struct unwind_header *header = (const struct unwind_header *)image.data;
    CHECK_INT(header->fde_count, ==, 1);
    CHECK_INT(header->base, ==, ORIGIN + TEXT - 0x40);
    CHECK_INT(header->text_bytes, ==, 0x40);
}

TEST(a_broken_program_affects_only_its_own_function) {
    put_usual_cie();
    FDE(0, 0x40, ADVANCE(4), RECALL); /* nothing remembered */
    FDE(0x40, 0x40, CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa, ==, UNWIND_CFA_RSP);
    CHECK_INT(at(4)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at(0x40)->cfa_offset, ==, 16);
}

TEST(a_program_that_remembers_too_many_states_is_broken) {
    uint8_t code[64];
    memset(code, REMEMBER, sizeof code);
    put_usual_cie();
    put_fde(0, 0x40, code, sizeof code);
    FDE(0x40, 0x40, CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x20)->cfa, ==, UNWIND_CFA_NONE);
    CHECK_INT(at(0x40)->cfa, ==, UNWIND_CFA_RSP);
}

TEST(instruction_sequences_seen_before_have_the_same_effect_again) {
    put_usual_cie();
    for (uint32_t i = 0; i < 3; i++)
        FDE(0x100 * (i + 1), 0x40, ADVANCE(1), CFA_OFFSET(16), OFFSET(6, 2), ADVANCE(2),
            CFA_OFFSET(64), OFFSET(3, 3), OFFSET(12, 4), OFFSET(13, (uint8_t)(5 + i)), ADVANCE(2),
            REMEMBER, CFA_OFFSET(8), ADVANCE(1), RECALL);
    CHECK_INT(compile(), ==, SONDE_OK);
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK_INT(at(0x100 * i)->cfa_offset, ==, 8);
        CHECK_INT(at(0x100 * i + 1)->saved[UNWIND_RBP], ==, -16);
        CHECK_INT(at(0x100 * i + 3)->saved[UNWIND_R12], ==, -32);
        CHECK_INT(at(0x100 * i + 3)->saved[UNWIND_R13], ==, -8 * (4 + (int)i));
        CHECK_INT(at(0x100 * i + 5)->cfa_offset, ==, 8);
        CHECK_INT(at(0x100 * i + 6)->cfa_offset, ==, 64);
    }
}

TEST(more_states_than_the_memo_holds_stay_distinct_and_the_remembered_one_survives) {
    uint8_t code[2700] = {CFA_OFFSET(24), REMEMBER};
    size_t len = 3;
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t offset = 1024 + 8 * i;
        const uint8_t step[] = {0x0e, 0x80 | (offset & 0x7f), (uint8_t)(offset >> 7), ADVANCE(1)};
        memcpy(code + len, step, sizeof step);
        len += sizeof step;
    }
    code[len++] = RECALL;
    put_usual_cie();
    put_fde(0x100, 0x400, code, len);
    put_fde(0x500, 0x400, code, len);
    CHECK_INT(compile(), ==, SONDE_OK);
    for (uint32_t start = 0x100; start <= 0x500; start += 0x400) {
        for (uint32_t i = 0; i < 600; i++)
            CHECK_INT(at(start + i)->cfa_offset, ==, 1024 + 8 * (int)i);
        CHECK_INT(at(start + 600)->cfa_offset, ==, 24);
    }
}

TEST(a_length_past_the_section_is_corrupt) {
    put_usual_cie();
    FDE(0, 0x40, CFA_OFFSET(16));
    put32(0x7fffffff);
    put32(4);
    CHECK_INT(compile(), ==, SONDE_CORRUPT);
}

TEST(a_record_of_length_zero_inside_a_section_is_skipped) {
    put_usual_cie();
    FDE(0, 0x40, CFA_OFFSET(16));
    put32(0);
    FDE(0x40, 0x40, CFA_OFFSET(24));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0x40)->cfa_offset, ==, 24);
}

TEST(an_unknown_augmentation_letter_makes_a_cie_unusable) {
    static const uint8_t code[] = {DEF_CFA(7, 8), OFFSET(16, 1)};
    section_len = 0;
    put_cie("zXR", "\x01\x1b", 2, code, sizeof code);
    FDE(0, 0x40, CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_NOT_AVAILABLE);
}

TEST(personality_and_lsda_are_skipped) {
    static const uint8_t code[] = {DEF_CFA(7, 8), OFFSET(16, 1)};
    static const uint8_t data[] = {7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b};
    section_len = 0;
    put_cie("zPLR", data, sizeof data, code, sizeof code);
    FDE(0, 0x40, CFA_OFFSET(16));
    CHECK_INT(compile(), ==, SONDE_OK);
    CHECK_INT(at(0)->cfa_offset, ==, 16);
}

TEST(rows_of_every_byte_of_a_page_are_found) {
    uint8_t code[3 * 700];
    put_usual_cie();
    for (int i = 0; i < 700; i++) {
        code[3 * i] = ADVANCE(1);
        code[3 * i + 1] = 0x0e;
        code[3 * i + 2] = (uint8_t)(i % 100 + 8);
    }
    put_fde(3, 800, code, sizeof code);
    CHECK_INT(compile(), ==, SONDE_OK);
    for (uint32_t i = 0; i < 700; i++)
        CHECK_INT(at(4 + i)->cfa_offset, ==, i % 100 + 8);
    CHECK_INT(at(802)->cfa_offset, ==, 699 % 100 + 8);
}
