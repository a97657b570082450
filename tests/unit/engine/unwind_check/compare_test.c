/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison that the confined process makes, here in this process: of its own stacks, and of
 * walks and formats that are wrong on purpose. */
#include "service/engine/unwind_check/check_format.h"
#include "service/engine/unwind_check/check_worker.h"
#include "service/engine/unwind_check/other_library.h"
#include "service/machine/own/here.h"
#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"
#include "tests/unit/unwind/work.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPIED 4096u

static struct modules modules;
static struct {
    struct unwind_registers registers;
    uint8_t bytes[COPIED];
} sample;

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    const struct walk_module *module = walk_map_find(&modules.map, pc);
    if (!module)
        return UNWIND_NOT_CODE;
    const struct sonde_buf *image = &modules.images[module - modules.modules];
    range->image = module->text_bytes ? image->data : NULL;
    range->bias =
        range->image ? module->text - ((const struct unwind_header *)image->data)->base : 0;
    return UNWIND_FOUND;
}

static __attribute__((noinline)) void take_sample(void) {
    unwind_registers_here(&sample.registers);
    sample.registers.known = UNWIND_ALL_KNOWN;
    memcpy(sample.bytes, (const void *)sample.registers.value[UNWIND_REG_SP], COPIED);
    __asm__ volatile("" ::: "memory");
}

/* The memory of a check with one stack. */
static uint8_t *memory;
static size_t memory_bytes;
static struct check_stack *stack;
static struct check_result *result;
static uint64_t *pcs;

static uint32_t add_modules(struct check_module *to) {
    uint32_t count = 0;
    for (uint64_t i = 0; i < modules.map.count; i++) {
        const struct walk_module *module = &modules.modules[i];
        int fd = modules.names[i][0] == '/' ? open(modules.names[i], O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0 || module->text_bytes == 0)
            continue;
        uint64_t base = ((const struct unwind_header *)modules.images[i].data)->base;
        CHECK(dup2(fd, CHECK_FIRST_FILE + (int)count) >= 0);
        to[count++] = (struct check_module){module->start, module->end, module->text - base};
    }
    return count;
}

static void walk_sample(struct unwind_copy_walk *walk) {
    struct unwind_copy copy = {sample.registers, sample.bytes, COPIED};
    const struct unwind_code_map map = {NULL, find, 1};
    struct unwind_walker *walker = unwind_walker_create();
    unwind_copy_walk(walker, &map, &copy, walk);
    unwind_walker_destroy(walker);
}

/* Samples this thread and puts what a check needs into memory. */
static void begin(void) {
    struct check_module found[CHECK_MAX_MODULES];
    static uint64_t walked[CHECK_MAX_FRAMES];
    struct unwind_copy_walk walk = {.pcs = walked, .capacity = CHECK_MAX_FRAMES};
    if (!other_library())
        check_skip("libunwind is not installed");
    work_deep(8, take_sample);
    if (modules.map.count == 0)
        modules_init(&modules);
    for (int fd = CHECK_FIRST_FILE; fd < CHECK_FIRST_FILE + MODULES_MAX; fd++)
        close(fd);
    uint32_t count = add_modules(found);
    walk_sample(&walk);
    CHECK_INT(walk.count, >, 8);
    free(memory);
    size_t at = check_bytes_at(count, 1);
    memory_bytes = at + 8 * CHECK_MAX_FRAMES + COPIED;
    memory = calloc(1, memory_bytes);
    *(struct check_header *)memory = (struct check_header){CHECK_MAGIC, memory_bytes, count, 1};
    memcpy(memory + check_modules_at(), found, count * sizeof *found);
    stack = (void *)(memory + check_stacks_at(count));
    result = (void *)(memory + check_results_at(count, 1));
    pcs = (void *)(memory + at);
    *stack = (struct check_stack){.stack_at = at + 8 * CHECK_MAX_FRAMES,
                                  .stack_bytes = COPIED,
                                  .pcs_at = at,
                                  .count = walk.count,
                                  .is_whole = 1};
    memcpy(stack->registers, sample.registers.value, sizeof stack->registers);
    memcpy(pcs, walked, 8 * walk.count);
    memcpy(memory + stack->stack_at, sample.bytes, COPIED);
}

TEST(equal_walks_are_equal) {
    begin();
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK(result->is_done && !result->differs);
    CHECK_INT(result->equal, ==, stack->count);
}

TEST(a_wrong_caller_is_found_with_the_row_of_its_callee) {
    begin();
    uint64_t right = pcs[4];
    pcs[4] += 16;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK_INT(result->differs, ==, 1);
    CHECK_INT(result->equal, ==, 4);
    CHECK(result->other == right);
    CHECK(strncmp(result->row, "CFA=rsp+", 8) == 0);
}

TEST(a_walk_that_ends_too_early_or_too_late_differs) {
    begin();
    uint32_t count = stack->count;
    stack->count = 5;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK(result->differs && result->equal == 5 && result->other == pcs[5]);
    stack->is_whole = 0; /* its pcs were full */
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK(result->is_done && !result->differs);
    stack->count = count + 1;
    pcs[count] = pcs[count - 1];
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK(result->differs && result->equal == count && result->other == 0);
}

TEST(a_copy_that_is_too_short_ends_the_other_walk_with_that_reason) {
    begin();
    stack->stack_bytes = 64;
    stack->count = 1;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
    CHECK_INT(result->end, ==, CHECK_SHORT);
}

TEST(memory_that_breaks_the_format_is_refused) {
    begin();
    struct check_header *header = (void *)memory, whole = *header;
    CHECK_INT(check_compare(memory, memory_bytes - 1), ==, CHECK_BROKEN);
    CHECK_INT(check_compare(memory, 4), ==, CHECK_BROKEN);
    header->magic++;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_BROKEN);
    *header = whole, header->stack_count = CHECK_MAX_STACKS;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_BROKEN);
    *header = whole, header->module_count = CHECK_MAX_MODULES + 1;
    CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_BROKEN);
}

TEST(a_stack_outside_of_the_memory_is_skipped) {
    begin();
    struct check_stack right = *stack;
    for (int i = 0; i < 4; i++) {
        *stack = right;
        if (i == 0)
            stack->stack_bytes = memory_bytes;
        else if (i == 1)
            stack->stack_at = ~7ull;
        else if (i == 2)
            stack->count = CHECK_MAX_FRAMES + 1;
        else
            stack->pcs_at++;
        result->is_done = 0;
        CHECK_INT(check_compare(memory, memory_bytes), ==, CHECK_DONE);
        CHECK_INT(result->is_done, ==, 0);
    }
}
