/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal frames, alternate stacks, and loads that fault. */
#include "tests/unit/check.h"
#include "tests/unit/unwind/made_up.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Puts a ucontext at a word of `stack`, as the kernel does. */
static void put_context(uint32_t at, uint64_t pc, const uint64_t *sp, const uint64_t *bp) {
    ucontext_t *context = (ucontext_t *)(stack + at);
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
    context->uc_mcontext.gregs[REG_RBP] = (greg_t)bp;
}

TEST(below_a_signal_frame_the_pc_is_exact) {
    struct unwind_rule rules[] = {rsp_rule(8), rule_of(UNWIND_CFA_SIGNAL, 0, 0), rsp_rule(8),
                                  rule_of(UNWIND_CFA_RBP, 6, 16), end_rule};
    use_rules(rules, 5);
    stack[10] = F(1) + 1; /* the trampoline */
    put_context(11, F(3), stack + 300, stack + 400);
    stack[401] = IN(4);
    walk_at(IN(0), stack + 10, NULL, 127);
    CHECK_INT(result.depth, ==, 4);
    CHECK_INT(result.end, ==, RING_END_ROOT);
    CHECK(pcs[2] == (F(3) | RING_PC_EXACT));
    CHECK_INT(pcs[3], ==, IN(4));
}

TEST(a_signal_frame_leads_from_the_alternate_stack_to_the_threads_stack) {
    struct unwind_rule rules[] = {rsp_rule(8), rule_of(UNWIND_CFA_SIGNAL, 0, 0), rsp_rule(8),
                                  end_rule};
    static uint64_t thread_stack[64];
    use_rules(rules, 4);
    bounds.thread = (struct walk_stack){(uint64_t)thread_stack, (uint64_t)(thread_stack + 64)};
    stack[10] = F(1) + 1;
    put_context(11, IN(2), thread_stack + 5, NULL);
    thread_stack[5] = IN(3);
    ucontext_t interrupted = {0};
    interrupted.uc_mcontext.gregs[REG_RIP] = (greg_t)IN(0);
    interrupted.uc_mcontext.gregs[REG_RSP] = (greg_t)(stack + 10);
    walk_from_context(&interrupted, &map, &cache, &bounds, pcs, 127, &result);
    CHECK_INT(result.depth, ==, 1); /* that stack is unknown */
    interrupted.uc_stack.ss_sp = stack;
    interrupted.uc_stack.ss_size = sizeof stack;
    walk_from_context(&interrupted, &map, &cache, &bounds, pcs, 127, &result);
    CHECK_INT(result.depth, ==, 4);
    CHECK_INT(result.end, ==, RING_END_ROOT);
}

TEST(a_signal_frame_beyond_the_end_of_the_stack_ends_the_walk) {
    struct unwind_rule rules[] = {rsp_rule(8), rule_of(UNWIND_CFA_SIGNAL, 0, 0)};
    use_rules(rules, 2);
    stack[WORDS - 10] = F(1) + 1;
    walk_at(IN(0), stack + WORDS - 10, NULL, 127);
    CHECK_INT(result.depth, ==, 2);
    CHECK_INT(result.end, ==, RING_END_BAD_STACK);
}

/* Faults. */

static volatile int faults;

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t resume = walk_fault_resume((uint64_t)gregs[REG_RIP]);
    if (!resume)
        abort();
    faults++;
    gregs[REG_RIP] = (greg_t)resume;
}

TEST(a_load_that_faults_ends_the_walk) {
    struct unwind_rule deref = rule_of(UNWIND_CFA_DEREF, 6, -8);
    struct unwind_rule rules[] = {rsp_rule(24), deref, rule_of(UNWIND_CFA_SIGNAL, 0, 0)};
    uint64_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    CHECK(pages != MAP_FAILED);
    use_rules(rules, 3);
    mprotect(pages + 512, 4096, PROT_NONE);
    bounds.thread = (struct walk_stack){(uint64_t)pages, (uint64_t)(pages + 1024)};
    sigaction(SIGSEGV, &action, &before);
    const uint64_t starts[] = {IN(0), IN(1), IN(2), JIT + 1};
    for (int i = 0; i < 4; i++) {
        walk_at(starts[i], pages + 511, pages + 516, 127);
        CHECK_INT(result.depth, ==, 1);
        CHECK_INT(result.end, ==, RING_END_BAD_STACK);
    }
    sigaction(SIGSEGV, &before, NULL);
    CHECK_INT(faults, ==, 4 * MADE_UP_WALKS);
    CHECK_INT(walk_fault_resume((uint64_t)&walk_fault_resume), ==, 0);
    munmap(pages, 8192);
}
