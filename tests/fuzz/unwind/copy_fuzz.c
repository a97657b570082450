/* SPDX-License-Identifier: Apache-2.0
 *
 * Any registers and any copied stack. The copy is a block of exactly its bytes, so a sanitizer sees
 * every read outside of it. Walks of another process over the same words find the same frames. */
#include "service/unwind/copy/copy.h"
#include "service/unwind/remote/remote.h"
#include "service/unwind/table/rows.h"
#include "tests/fuzz/unwind/copy_rules.h"

#include <stdlib.h>
#include <string.h>

#define CODE  0x400000ull
#define STACK 0x7f0000000000ull
#define DEPTH 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sonde_buf table;
static const uint8_t *stack;
static size_t stack_bytes;

/* One function of 16 bytes for each kind of rule. */
static void build(void) {
    struct unwind_rows rows;
    unwind_rows_init(&rows);
    rows.machine = fuzz_machine;
    rows.origin = 0;
    for (uint32_t i = 0; i < 64; i++) {
        struct unwind_rule rule = {.cfa = (uint8_t)(i % UNWIND_CFA_COUNT),
                                   .cfa_register = (uint8_t)(i % 16),
                                   .cfa_offset = (int32_t)(i % 5) * 8 + 8};
        fuzz_set_saved(i, &rule);
        unwind_rows_add(&rows, i * 16, &rule);
    }
    unwind_rows_gap(&rows, 64 * 16);
    if (unwind_rows_write(&rows, &table) != SONDE_OK ||
        unwind_table_check_for(fuzz_machine, table.data, table.len) != SONDE_OK)
        abort();
    unwind_rows_finish(&rows);
}

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    (void)context;
    *range = (struct unwind_range){.image = pc < 2 * CODE ? table.data : NULL, .bias = CODE};
    if (pc >= 3 * CODE && pc < 3 * CODE + 4096)
        return UNWIND_LATER;
    return (pc >= CODE && pc < CODE + 2048) || (pc >= 2 * CODE && pc < 2 * CODE + 4096)
               ? UNWIND_FOUND
               : UNWIND_NOT_CODE;
}

static bool find_remote(void *context, uint64_t pc, struct unwind_code *code) {
    struct unwind_range range;
    if (find(context, pc, &range) != UNWIND_FOUND)
        return false;
    *code = (struct unwind_code){range.image, range.bias};
    return true;
}

static uint64_t low;

/* Below the copy, words of which nothing is known. */
static bool read_remote(void *context, uint64_t address, uint64_t *word) {
    (void)context;
    if (address - low > stack_bytes || stack_bytes - (address - low) < 8)
        return false;
    memcpy(word, stack + (address - low), 8);
    return true;
}

static void compare(const struct unwind_copy *copy, const struct unwind_copy_walk *walk) {
    static const struct unwind_remote remote = {NULL, find_remote, read_remote};
    uint64_t pcs[DEPTH];
    struct unwind_remote_walk other = {.pcs = pcs, .capacity = DEPTH};
    unwind_remote_walk(&remote, &copy->registers, &other);
    uint32_t both = walk->count < other.count ? walk->count : other.count;
    /* A register in the red zone ends the other walk, and a large gap ends this one. */
    if (memcmp(pcs, walk->pcs, 8 * both) != 0 ||
        (walk->end == UNWIND_COPY_ROOT && other.end == UNWIND_REMOTE_ROOT &&
         walk->count != other.count))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct unwind_walker *walker;
    uint64_t pcs[DEPTH];
    struct unwind_copy copy = {.registers.known = UNWIND_ALL_KNOWN};
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = DEPTH};
    const struct unwind_code_map map = {NULL, find, 1};
    if (size < sizeof copy.registers.value)
        return 0;
    if (!walker) {
        build();
        walker = unwind_walker_create();
    }
    memcpy(copy.registers.value, data, sizeof copy.registers.value);
    low = copy.registers.value[UNWIND_REG_SP];
    stack_bytes = copy.stack_bytes = size - sizeof copy.registers.value;
    uint8_t *block = malloc(stack_bytes + 1);
    memcpy(block, data + sizeof copy.registers.value, stack_bytes);
    stack = copy.stack = block;
    unwind_copy_walk(walker, &map, &copy, &walk);
    if (walk.count > DEPTH || walk.end >= UNWIND_COPY_ENDS || walk.used_bytes > stack_bytes)
        abort();
    compare(&copy, &walk);
    free(block);
    return 0;
}
