/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the interrupted context in a real signal handler and compares the result with libunwind's
 * walk of the same context. (Here libunwind can do that, because this program does not load
 * libraries or throw exceptions meanwhile.) */
#define UNW_LOCAL_ONLY
#include "service/guest/ring.h"
#include "service/machine/own/here.h"
#include "tests/unit/check.h"
#include "tests/unit/unwind/modules.h"
#include "tests/unit/unwind/work.h"

#include <libunwind.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define DEPTH 1000

static struct modules modules;
static struct walk_cache cache;
static struct walk_bounds bounds;

static struct {
    uint64_t ours[DEPTH], theirs[DEPTH];
    uint32_t their_depth;
    struct walk_result result;
    uint64_t walks, different, printed;
} seen;

static uint32_t walk_by_libunwind(unw_context_t *context) {
    unw_cursor_t cursor;
    uint32_t depth = 0;
    if (unw_init_local2(&cursor, context, UNW_INIT_SIGNAL_FRAME) != 0)
        return 0;
    do {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        if (pc == 0)
            break;
        seen.theirs[depth++] = pc;
    } while (depth < DEPTH && unw_step(&cursor) > 0);
    return depth;
}

static bool equal(void) {
    if (seen.result.depth != seen.their_depth || seen.result.end != RING_END_ROOT)
        return false;
    for (uint32_t i = 0; i < seen.their_depth; i++)
        if ((seen.ours[i] & ~RING_PC_EXACT) != seen.theirs[i])
            return false;
    return true;
}

static const char *module_of(uint64_t pc, uint64_t *offset) {
    const struct walk_module *module = walk_map_find(&modules.map, pc & ~RING_PC_EXACT);
    *offset = module ? (pc & ~RING_PC_EXACT) - module->start : 0;
    return module ? modules.names[module - modules.modules] : "?";
}

static void print_difference(void) {
    if (seen.printed++ >= 5)
        return;
    printf("ours: %u frames, end %u; libunwind: %u frames\n", seen.result.depth, seen.result.end,
           seen.their_depth);
    for (uint32_t i = 0; i < seen.result.depth || i < seen.their_depth; i++) {
        uint64_t our = i < seen.result.depth ? seen.ours[i] : 0, offset, ours_offset;
        uint64_t their = i < seen.their_depth ? seen.theirs[i] : 0;
        const char *our_module = module_of(our, &ours_offset), *module = module_of(their, &offset);
        printf("  %s+%#lx | %s+%#lx\n", our_module, (unsigned long)ours_offset, module,
               (unsigned long)offset);
    }
}

static void on_signal(int number, siginfo_t *info, void *context) {
    walk_from_context(context, &modules.map, &cache, &bounds, seen.ours, DEPTH, &seen.result);
    seen.their_depth = walk_by_libunwind(context);
    seen.walks++;
    if (!equal()) {
        seen.different++;
        print_difference();
    }
}

static void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler,
                               .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    sigaction(number, &action, NULL);
}

static void begin(void) {
    if (modules.map.count == 0) {
        work_round(1); /* resolves lazy symbols and touches the vdso's pages */
        modules_init(&modules);
    }
    memset(&seen, 0, sizeof seen);
    bounds = (struct walk_bounds){.thread = modules.stack};
    set_handler(SIGUSR1, on_signal, 0);
}

static void raise_it(void) {
    pthread_kill(pthread_self(), SIGUSR1);
}

TEST(every_module_of_this_program_has_a_table) {
    begin();
    for (uint64_t i = 0; i < modules.map.count; i++)
        if (modules.names[i][0] == '/' && modules.modules[i].text_bytes == 0)
            check_fail(__FILE__, __LINE__, "%s has no table", modules.names[i]);
}

TEST(a_mixed_recursion_is_walked_as_libunwind_walks_it) {
    begin();
    for (unsigned depth = 0; depth < 200; depth++)
        work_deep(depth, raise_it);
    CHECK_INT(seen.walks, ==, 200);
    CHECK_INT(seen.different, ==, 0);
    CHECK_INT(seen.result.depth, >, 200);
}

static void *in_thread(void *context) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    bounds.thread = (struct walk_stack){(uint64_t)low, (uint64_t)low + size};
    work_deep(60, raise_it);
    pthread_attr_destroy(&attributes);
    return NULL;
}

TEST(a_thread_is_walked_to_its_root) {
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    CHECK_INT(seen.walks, ==, 1);
    CHECK_INT(seen.different, ==, 0);
}

static void on_outer(int number, siginfo_t *info, void *context) {
    work_deep(10, raise_it);
}

static void raise_outer(void) {
    pthread_kill(pthread_self(), SIGUSR2);
}

TEST(a_sample_inside_a_handler_is_walked_through_the_signal_frame) {
    begin();
    set_handler(SIGUSR2, on_outer, 0);
    work_deep(20, raise_outer);
    CHECK_INT(seen.walks, ==, 1);
    CHECK_INT(seen.different, ==, 0);
    uint32_t exact = 0;
    for (uint32_t i = 0; i < seen.result.depth; i++)
        exact += (seen.ours[i] & RING_PC_EXACT) != 0;
    CHECK_INT(exact, ==, 2); /* the trampoline, and the code that was interrupted */
}

static char alternate[1 << 16] __attribute__((aligned(64)));

TEST(a_sample_on_the_alternate_stack_is_walked_back_to_the_threads_stack) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate},
            none = {.ss_flags = SS_DISABLE};
    begin();
    CHECK_INT(sigaltstack(&stack, NULL), ==, 0);
    set_handler(SIGUSR1, on_signal, SA_ONSTACK);
    set_handler(SIGUSR2, on_outer, SA_ONSTACK);
    work_deep(20, raise_outer);
    sigaltstack(&none, NULL);
    CHECK_INT(seen.walks, ==, 1);
    CHECK_INT(seen.different, ==, 0);
}

/* Interrupts at any instruction. */
static void sample_while_working(uint64_t wanted) {
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    volatile unsigned long sum = 0;
    set_handler(SIGALRM, on_signal, 0);
    setitimer(ITIMER_REAL, &every, NULL);
    for (unsigned n = 0; seen.walks < wanted && n < 20u << 20; n++)
        sum = sum + work_round(n);
    setitimer(ITIMER_REAL, &never, NULL);
}

TEST(interrupted_anywhere_the_walk_equals_libunwinds) {
    begin();
    sample_while_working(4000);
    printf("%lu walks, %lu different\n", (unsigned long)seen.walks, (unsigned long)seen.different);
    CHECK_INT(seen.walks, >=, 1000);
    CHECK_INT(seen.different * 1000, <=, seen.walks);
}

static void walk_from_here(void) {
    struct unwind_registers registers;
    unwind_registers_here(&registers);
    walk_from_registers(&registers, &modules.map, &cache, &bounds, seen.ours, DEPTH, &seen.result);
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    for (seen.their_depth = 0; seen.their_depth < DEPTH; seen.their_depth++) {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        seen.theirs[seen.their_depth] = pc;
        if (unw_step(&cursor) <= 0)
            break;
    }
    seen.their_depth++;
    seen.theirs[0] = seen.ours[0]; /* they are two different pcs in this function */
}

TEST(an_ordinary_call_walks_from_its_own_registers) {
    begin();
    work_deep(40, walk_from_here);
    if (!equal())
        print_difference();
    CHECK(equal());
    CHECK_INT(seen.result.depth, >, 40);
}
