/* SPDX-License-Identifier: Apache-2.0
 *
 * How much stack a walk needs. It runs on a stack of its own that is filled with a pattern, and
 * walks this program's stack to its root, once by the fast loop and once by the slow one. */
#include "service/guest/ring.h"
#include "service/guest/signal/walk_shared.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"

#include <stdio.h>

#define PAINT 0xabababababababab
#define WORDS 2048

static struct modules modules;
static struct walk_cache cache;
static struct walk_bounds bounds;
static struct walk_result result;
static ucontext_t caller, walker, interrupted;
static uint64_t painted[WORDS], pcs[RING_MAX_DEPTH];

static void walk_fast_once(void) {
    walk_from_context(&interrupted, &modules.map, &cache, &bounds, pcs, RING_MAX_DEPTH, &result);
}

static void walk_slow_once(void) {
    struct unwind_registers registers;
    struct walk walk = {.map = &modules.map, .bounds = &bounds, .pcs = pcs, .max = RING_MAX_DEPTH};
    unwind_take_context(&registers, &interrupted);
    walk.pcs[walk.at++] = registers.value[UNWIND_REG_PC];
    if (walk_enter_stack(&walk, registers.value[UNWIND_REG_SP]))
        walk_slowly(&walk, &registers, NULL, NULL);
    result.depth = walk.at;
}

/* Returns how many bytes of stack `run` uses. */
static size_t stack_of(void (*run)(void)) {
    for (size_t i = 0; i < WORDS; i++)
        painted[i] = PAINT;
    getcontext(&walker);
    walker.uc_stack.ss_sp = painted;
    walker.uc_stack.ss_size = sizeof painted;
    walker.uc_link = &caller;
    makecontext(&walker, run, 0);
    swapcontext(&caller, &walker);
    size_t untouched = 0;
    while (painted[untouched] == PAINT)
        untouched++;
    return (WORDS - untouched) * 8;
}

TEST(a_walk_takes_less_than_one_kilobyte_of_stack) {
    modules_init(&modules);
    bounds.thread = modules.stack;
    getcontext(&interrupted);
    size_t fast = stack_of(walk_fast_once);
    CHECK_INT(result.depth, >=, 3);
    size_t slow = stack_of(walk_slow_once);
    CHECK_INT(result.depth, >=, 3);
    printf("%zu bytes fast, %zu slow\n", fast, slow);
    CHECK_INT(fast, <, 1024);
    CHECK_INT(slow, <, 1024);
    modules_finish(&modules);
}
