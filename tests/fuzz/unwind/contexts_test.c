/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks CONTEXTS random contexts with the real tables of this process: random registers, and a
 * stack of random words, many of them addresses of code or of the stack, with guard pages in it. No
 * walk may crash, write outside of its pcs, or fail to end. */
#include "service/guest/ring.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 16
#define WORDS (PAGES * 512)
#define DEPTH 64

static struct modules modules;
static struct walk_cache cache;
static uint64_t *stack;
static uint64_t state = 0x2545f4914f6cdd1d, faults;

static uint64_t random_next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t resume = walk_fault_resume((uint64_t)gregs[REG_RIP]);
    if (!resume)
        signal(number, SIG_DFL);
    else
        gregs[REG_RIP] = (greg_t)resume;
    faults++;
}

static uint64_t random_code(void) {
    const struct walk_module *module = &modules.modules[random_next() % modules.map.count];
    return module->start + random_next() % (module->end - module->start);
}

static uint64_t random_word(void) {
    switch (random_next() % 8) {
    case 0:
        return random_next();
    case 1:
        return random_next() % 4096;
    case 2:
    case 3:
        return (uint64_t)stack + random_next() % (WORDS * 8);
    default:
        return random_code();
    }
}

static void shuffle_stack(void) {
    for (size_t i = 0; i < WORDS; i++)
        stack[i] = random_word();
}

/* Pages 5 and 11 are not readable, though they are inside the bounds. */
static void set_guards(int protection) {
    mprotect(stack + 5 * 512, 4096, protection);
    mprotect(stack + 11 * 512, 4096, protection);
}

static void check_one(const struct walk_bounds *bounds, uint32_t max) {
    ucontext_t context;
    struct walk_result result;
    uint64_t pcs[DEPTH + 1];
    memset(&context, 0, sizeof context);
    for (int i = 0; i < NGREG; i++)
        context.uc_mcontext.gregs[i] = (greg_t)random_word();
    if (random_next() % 16) {
        context.uc_mcontext.gregs[REG_RIP] = (greg_t)random_code();
        context.uc_mcontext.gregs[REG_RSP] =
            (greg_t)((uint64_t)(stack + random_next() % WORDS) + (random_next() % 64 == 0));
    }
    pcs[max] = 0x5a5a5a5a5a5a5a5a;
    walk_from_context(&context, &modules.map, &cache, bounds, pcs, max, &result);
    CHECK_INT(result.depth, >=, 1);
    CHECK_INT(result.depth, <=, max);
    CHECK_INT(result.end, <, RING_END_COUNT);
    CHECK_INT(result.gap_at, <=, result.depth);
    CHECK_INT(pcs[max], ==, 0x5a5a5a5a5a5a5a5a);
    CHECK_INT(result.frames, <=, WALK_MAX_FRAMES + 2 * DEPTH);
}

TEST(walks_of_random_contexts_end_without_harm) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before[2];
    modules_init(&modules);
    stack = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    struct walk_stack half = {(uint64_t)stack, (uint64_t)(stack + WORDS / 2)};
    struct walk_bounds bounds = {
        .thread = {half.high, (uint64_t)(stack + WORDS)}, .extra = &half, .extra_count = 1};
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        if (i % 1000 == 0) {
            set_guards(PROT_READ | PROT_WRITE);
            shuffle_stack();
            set_guards(PROT_NONE);
        }
        bounds.faults_resume = random_next() & 1;
        check_one(&bounds, 2 + (uint32_t)(random_next() % (DEPTH - 1)));
    }
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    printf("%d contexts, %lu faults answered\n", CONTEXTS, (unsigned long)faults);
    CHECK_INT(faults, >, 0);
    munmap(stack, WORDS * 8);
    modules_finish(&modules);
}
