/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack is made from its root downwards. Each frame has a row of readelf's, random values in all
 * registers that the row says are saved, and its caller's values where the row says. All other
 * words are addresses of code and of the stack, which a walk in the wrong place would believe.
 *
 *     caller:  x19 ... x30, sp = CFA
 *     frame:   [CFA + offset of each saved register] = caller's value
 *              x30 = return address, until it is saved; base of the CFA = CFA - offset
 *
 * So the walk, over our table of the file, has to find the registers of the root again. */
#include "tests/unit/elf/machine/arm64_stacks.h"

#include "service/unwind/copy/copy.h"
#include "service/unwind/remote/remote.h"
#include "service/unwind/step/access.h"
#include "service/unwind/table/table_lookup.h"
#include "tests/unit/elf/machine/arm64_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIAS   0x555500000000ull
#define STACK  0xffff80000000ull
#define BYTES  (1u << 20)
#define WORDS  (BYTES / 8)
#define FRAMES 24u
#define TRIES  10000u /* to make one stack */
#define FIRST  ARM64_FIRST
#define LAST   ARM64_LAST
#define SP     UNWIND_REG_SP
#define SIGN   (0x2aull << 48)

struct usable {
    uint64_t address;
    struct arm64_row row;
};

struct maker {
    struct sonde_buf table;
    struct usable *rows;
    size_t count, capacity;
    bool has_caller; /* a row that stores x30 */
    uint64_t seed;
    uint64_t words[WORDS];
    uint64_t value[UNWIND_REGISTERS]; /* of the frame that was made last */
    uint64_t root[UNWIND_REGISTERS];  /* of the root, when it called the next */
    uint64_t pcs[FRAMES];             /* root first */
    uint32_t depth;
};

static uint64_t any(struct maker *maker) {
    maker->seed ^= maker->seed << 13;
    maker->seed ^= maker->seed >> 7;
    maker->seed ^= maker->seed << 17;
    return maker->seed;
}

/* --- rows --- */

static bool is_saved(const struct arm64_row *row, unsigned number) {
    return number >= FIRST && number <= LAST && row->saved[number] < ARM64_LOST;
}

/* A frame whose CFA is relative to a register has saved that register's old value. Rows that lose a
 * register are left out, and so is the entry of glibc's resolver, whose x30 is above its CFA. */
static void take_row(void *context, uint64_t address, const struct arm64_row *row) {
    struct maker *maker = context;
    bool is_usable = !row->is_expression && (row->base == SP || is_saved(row, row->base));
    const struct unwind_rule *rule = unwind_table_rule(maker->table.data, address);
    for (unsigned i = FIRST; i <= LAST; i++)
        is_usable &= row->saved[i] < 0 || row->saved[i] == ARM64_UNCHANGED;
    for (unsigned i = 0; i < UNWIND_NEAR_COUNT; i++)
        is_usable &= rule->arm64.near[i] != UNWIND_NEAR_LOST;
    if (!is_usable || rule->cfa == UNWIND_CFA_END)
        return;
    if (maker->count == maker->capacity) {
        maker->capacity = 2 * maker->capacity + 256;
        maker->rows = realloc(maker->rows, maker->capacity * sizeof *maker->rows);
    }
    maker->rows[maker->count++] = (struct usable){address, *row};
    maker->has_caller |= is_saved(row, LAST);
}

/* A frame that has called another has saved its return address. */
static const struct usable *pick(struct maker *maker, bool is_leaf) {
    const struct usable *found;
    do
        found = &maker->rows[any(maker) % maker->count];
    while (!is_leaf && !is_saved(&found->row, LAST));
    return found;
}

/* --- stacks --- */

static uint64_t noise(struct maker *maker) {
    uint64_t any_row = maker->rows[any(maker) % maker->count].address;
    return any(maker) & 1 ? BIAS + any_row + 4 : STACK + (any(maker) % BYTES & ~15ull);
}

static void put(struct maker *maker, uint64_t address, uint64_t word) {
    maker->words[(address - STACK) / 8] = word;
}

/* The lowest place that the frame uses. */
static uint64_t bottom_of(const struct arm64_row *row, uint64_t cfa) {
    uint64_t bottom = cfa;
    for (unsigned i = FIRST; i <= LAST; i++)
        if (is_saved(row, i) && cfa + (uint64_t)row->saved[i] < bottom)
            bottom = cfa + (uint64_t)row->saved[i];
    return bottom & ~15ull;
}

/* Makes a frame below the last one. False if the stack is full. */
static bool add_frame(struct maker *maker, const struct usable *from, bool is_leaf) {
    const struct arm64_row *row = &from->row;
    uint64_t cfa = maker->value[SP], address = maker->depth ? maker->pcs[maker->depth - 1] : 0;
    uint64_t sp =
        row->base == SP ? cfa - (uint64_t)row->offset : bottom_of(row, cfa) - 16 * (any(maker) % 8);
    if (sp - STACK >= BYTES || sp > cfa)
        return false;
    maker->value[LAST] = any(maker) & 1 || !address ? address : address | SIGN;
    for (unsigned i = FIRST; i <= LAST; i++) {
        if (!is_saved(row, i))
            continue;
        put(maker, cfa + (uint64_t)row->saved[i], maker->value[i]);
        maker->value[i] = noise(maker);
    }
    if (row->base != SP)
        maker->value[row->base] = cfa - (uint64_t)row->offset;
    maker->value[SP] = sp;
    maker->pcs[maker->depth++] = BIAS + from->address + (is_leaf ? 0 : 4);
    return true;
}

/* False if the rows do not fit. */
static bool make(struct maker *maker, struct arm64_stacks *stacks) {
    uint32_t depth = 2 + (uint32_t)(any(maker) % (FRAMES - 2));
    for (unsigned i = FIRST; i < LAST; i++)
        maker->value[i] = noise(maker);
    maker->value[SP] = STACK + BYTES - 4096;
    maker->depth = 0;
    for (unsigned tries = 0; maker->depth < depth; tries++) {
        if (tries == TRIES)
            return false;
        bool is_leaf = maker->depth + 1 == depth;
        const struct usable *from = pick(maker, is_leaf);
        if (!add_frame(maker, from, is_leaf))
            continue;
        if (maker->depth == 1)
            memcpy(maker->root, maker->value, sizeof maker->root);
        stacks->by_other += from->row.base != SP && from->row.base != 29;
    }
    stacks->frames += depth;
    return true;
}

/* --- walks --- */

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    const struct maker *maker = context;
    *range = (struct unwind_range){BIAS, BIAS + (1u << 31), maker->table.data, BIAS};
    return pc - BIAS < 1u << 31 ? UNWIND_FOUND : UNWIND_NOT_CODE;
}

static bool find_remote(void *context, uint64_t pc, struct unwind_code *code) {
    struct unwind_range range;
    bool found = find(context, pc, &range) == UNWIND_FOUND;
    *code = (struct unwind_code){range.image, range.bias};
    return found;
}

static bool read_remote(void *context, uint64_t address, uint64_t *word) {
    const struct maker *maker = context;
    if (address - STACK > BYTES - 8)
        return false;
    memcpy(word, (const uint8_t *)maker->words + (address - STACK), 8);
    return true;
}

static bool are_pcs(const struct maker *maker, const uint64_t *pcs, uint32_t count) {
    bool same = count == maker->depth;
    for (uint32_t i = 0; i < count && same; i++)
        same = pcs[i] == maker->pcs[maker->depth - 1 - i];
    return same;
}

/* Whether the walk has restored the registers that the root had when it called. */
static bool are_registers(const struct maker *maker, const struct unwind_registers *found) {
    for (unsigned i = FIRST; i <= SP; i++)
        if (i != LAST && (!unwind_is_known(found, i) || found->value[i] != maker->root[i]))
            return false;
    return true;
}

static void print(const struct maker *maker, const uint64_t *pcs, uint32_t count, int end) {
    printf("end %d, %u of %u frames\n", end, count, maker->depth);
    for (uint32_t i = 0; i < count && i < maker->depth; i++)
        printf("    %#lx, found %#lx\n", (unsigned long)(maker->pcs[maker->depth - 1 - i] - BIAS),
               (unsigned long)(pcs[i] - BIAS));
}

static void walk_copy(struct maker *maker, struct unwind_walker *walker,
                      const struct unwind_registers *registers, struct arm64_stacks *stacks) {
    static uint64_t serial = 1;
    uint64_t pcs[FRAMES + 1], at = registers->value[SP] - STACK;
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = FRAMES + 1};
    struct unwind_code_map map = {maker, find, serial};
    struct unwind_copy copy = {*registers, (const uint8_t *)maker->words + at, BYTES - at};
    unwind_copy_walk(walker, &map, &copy, &walk);
    bool is_right = walk.end == UNWIND_COPY_ROOT && are_pcs(maker, pcs, walk.count);
    if (!is_right && stacks->wrong++ == 0)
        print(maker, pcs, walk.count, (int)walk.end);
}

static void walk_as_another_process(struct maker *maker, const struct unwind_registers *registers,
                                    struct arm64_stacks *stacks) {
    uint64_t pcs[FRAMES + 1];
    struct unwind_remote_walk walk = {.pcs = pcs, .capacity = FRAMES + 1};
    struct unwind_remote remote = {maker, find_remote, read_remote};
    unwind_remote_walk(&remote, registers, &walk);
    bool is_right = walk.end == UNWIND_REMOTE_ROOT && are_pcs(maker, pcs, walk.count);
    if (!is_right && stacks->wrong++ == 0)
        print(maker, pcs, walk.count, (int)walk.end);
    stacks->lost += is_right && !are_registers(maker, &walk.at_end);
}

static sonde_err walk_rounds(struct maker *maker, unsigned rounds, struct arm64_stacks *stacks) {
    struct unwind_walker *walker = unwind_walker_create();
    bool is_made = true;
    for (size_t i = 0; i < WORDS; i++)
        maker->words[i] = noise(maker);
    for (unsigned i = 0; i < rounds && walker; i++) {
        struct unwind_registers registers = {.known = UNWIND_ALL_KNOWN};
        is_made = make(maker, stacks);
        if (!is_made)
            break;
        memcpy(registers.value, maker->value, sizeof registers.value);
        registers.value[UNWIND_REG_PC] = maker->pcs[maker->depth - 1];
        walk_copy(maker, walker, &registers, stacks);
        walk_as_another_process(maker, &registers, stacks);
    }
    sonde_err err = !walker ? SONDE_OUT_OF_MEMORY : is_made ? SONDE_OK : SONDE_CORRUPT;
    unwind_walker_destroy(walker);
    return err;
}

sonde_err arm64_stacks_walk(const char *path, unsigned rounds, struct arm64_stacks *stacks,
                            struct sonde_diag *diag) {
    struct maker *maker = calloc(1, sizeof *maker);
    *stacks = (struct arm64_stacks){0};
    if (!maker)
        return SONDE_OUT_OF_MEMORY;
    maker->seed = 88172645463325252ull;
    sonde_err err = arm64_rows_build(path, &maker->table, diag);
    if (!err)
        err = arm64_rows_read(path, take_row, maker);
    stacks->rows = maker->count;
    if (!err && maker->count)
        err = maker->has_caller ? walk_rounds(maker, rounds, stacks) : SONDE_CORRUPT;
    sonde_buf_finish(&maker->table);
    free(maker->rows);
    free(maker);
    return err;
}
