/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unwind/made_up.h"

#include "api/bytes.h"
#include "service/unwind/table/rows.h"
#include "tests/unit/check.h"

#include <string.h>

uint64_t stack[WORDS];
struct walk_cache cache;
struct walk_bounds bounds;
struct walk_result result;
uint64_t pcs[256];
static struct sonde_buf image;
static struct walk_module modules[2];
struct walk_map map = {.count = 2, .modules = modules};

struct unwind_rule rule_of(uint8_t kind, uint8_t number, int32_t offset) {
    struct unwind_rule rule = {.cfa = kind, .cfa_register = number, .cfa_offset = offset};
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
        rule.saved[i] = UNWIND_SAME;
    return rule;
}

struct unwind_rule rsp_rule(int32_t offset) {
    return rule_of(UNWIND_CFA_RSP, 7, offset);
}

void use_rules(const struct unwind_rule *rules, uint32_t count) {
    struct unwind_rows rows;
    sonde_buf_finish(&image);
    unwind_rows_init(&rows);
    rows.origin = 0x1000;
    struct unwind_rule filler = rsp_rule(8);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        unwind_rows_add(&rows, 256 * i, i < count ? &rules[i] : &filler);
    unwind_rows_gap(&rows, 256 * FUNCTIONS);
    CHECK_INT(unwind_rows_write(&rows, &image), ==, SONDE_OK);
    CHECK_INT(unwind_table_check(image.data, image.len), ==, SONDE_OK);
    unwind_rows_finish(&rows);
    walk_module_init(&modules[0], CODE, CODE + 256 * FUNCTIONS, CODE - 0x1000, image.data);
    walk_module_init(&modules[1], JIT, JIT + 0x10000, 0, NULL);
    map.generation++;
    memset(stack, 0, sizeof stack);
    bounds = (struct walk_bounds){{(uint64_t)stack, (uint64_t)(stack + WORDS)}, NULL, 0, false};
}

/* Walks again with a memo of other walks; the result must not differ. */
static void walk_with_memo(const struct unwind_registers *registers, uint32_t max) {
    static struct walk_memo memo;
    struct walk_result again;
    uint64_t same[256];
    memset(same, 0xee, sizeof same);
    walk_from_call(registers, &map, &cache, &memo, &bounds, same, max, &again);
    CHECK(memcmp(&again, &result, sizeof again) == 0);
    CHECK(memcmp(same, pcs, sizeof same) == 0);
}

void walk_at(uint64_t pc, const uint64_t *sp, const uint64_t *bp, uint32_t max) {
    struct unwind_registers registers = {.known = 1ull << UNWIND_REG_PC | 1ull << UNWIND_REG_SP |
                                                  1ull << UNWIND_REG_FP};
    registers.value[UNWIND_REG_PC] = pc;
    registers.value[UNWIND_REG_SP] = (uint64_t)sp;
    registers.value[UNWIND_REG_FP] = (uint64_t)bp;
    memset(pcs, 0xee, sizeof pcs);
    walk_from_registers(&registers, &map, &cache, &bounds, pcs, max, &result);
    for (int i = 1; i < MADE_UP_WALKS; i++)
        walk_with_memo(&registers, max);
}

const struct unwind_rule end_rule = {.cfa = UNWIND_CFA_END};
