/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests walks at every instruction of a set of functions. A child executes them step by step under
 * ptrace. At each step the walk of its registers and stack is compared with libunwind's remote
 * walk.
 *
 * The functions are those of this program, and the same functions compiled here by gcc and clang at
 * each optimisation level, with and without frame pointers.
 *
 * The child runs on a stack that parent and child have at the same address. The parent copies the
 * child's words to its own, where the walker then reads them. */
#include "service/guest/ring.h"
#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"
#include "tests/unit/unwind/modules.h"
#include "tests/unit/unwind/work.h"

#include <dlfcn.h>
#include <libunwind-ptrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define MAX_STEPS   40000
#define MORE_STEPS  60000 /* if each pc is compared at most TIMES times */
#define TIMES       3
#define MAX_CALLS   256
#define DEPTH       64

static struct modules modules;
static struct walk_cache cache;
static char *stack;
static ucontext_t caller, worker;

static unsigned long (*subject)(unsigned) = work_short;

/* What the child does on the shared stack. */
static void work_once(void) {
    subject(7);
    subject(15);
}

static void stop_here(void) {
    raise(SIGSTOP);
}

static void run_child(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    getcontext(&worker);
    worker.uc_stack.ss_sp = stack;
    worker.uc_stack.ss_size = STACK_BYTES;
    worker.uc_link = &caller;
    makecontext(&worker, work_once, 0);
    stop_here();
    swapcontext(&caller, &worker);
    _exit(0);
}

static void registers_of(const struct user_regs_struct *from, struct unwind_registers *to) {
    const uint64_t in_order[UNWIND_REGISTERS] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rip};
    memcpy(to->value, in_order, sizeof in_order);
    to->known = (1u << UNWIND_REGISTERS) - 1;
}

/* Walks again with a memo, as for heap samples; it has the walk of the step before. */
static void check_with_memo(const struct unwind_registers *start, const struct walk_bounds *bounds,
                            const uint64_t *pcs, const struct walk_result *result) {
    static struct walk_memo memo;
    struct walk_result again;
    uint64_t same[DEPTH];
    walk_from_call(start, &modules.map, &cache, &memo, bounds, same, DEPTH, &again);
    CHECK_INT(again.depth, ==, result->depth);
    CHECK_INT(again.end, ==, result->end);
    CHECK(memcmp(same, pcs, result->depth * sizeof *pcs) == 0);
}

static enum unwind_found find_range(void *context, uint64_t pc, struct unwind_range *range) {
    const struct walk_module *module = walk_map_find(&modules.map, pc);
    if (!module)
        return UNWIND_NOT_CODE;
    const struct sonde_buf *image = &modules.images[module - modules.modules];
    range->image = module->text_bytes ? image->data : NULL;
    if (range->image)
        range->bias = module->text - ((const struct unwind_header *)image->data)->base;
    return UNWIND_FOUND;
}

static struct unwind_walker *copy_walker;
static struct { uint64_t walks, different; } copied;

/* Walks the words above rsp as a copied stack. The frames must be the same. */
static void check_copy(const struct unwind_registers *start, uint64_t high, const uint64_t *pcs,
                       const struct walk_result *result) {
    uint64_t same[DEPTH], low = start->value[UNWIND_REG_SP];
    struct unwind_copy copy = {*start, (const uint8_t *)low, high - low};
    struct unwind_copy_walk walk = {.pcs = same, .capacity = DEPTH};
    const struct unwind_code_map map = {NULL, find_range, modules.map.generation};
    if (!copy_walker)
        copy_walker = unwind_walker_create();
    unwind_copy_walk(copy_walker, &map, &copy, &walk);
    copied.walks++;
    if (walk.count == result->depth && memcmp(same, pcs, walk.count * sizeof *pcs) == 0)
        return;
    if (copied.different++ < 4)
        printf("at %lx: copy %u frames (end %u), ours %u (end %u)\n", (unsigned long)pcs[0],
               walk.count, walk.end, result->depth, result->end);
}

/* Walks with our walker. False if the child is not on the shared stack. */
static bool walk_ours(pid_t child, const struct user_regs_struct *registers, uint64_t *pcs,
                      struct walk_result *result) {
    uint64_t low = (uint64_t)stack, high = low + STACK_BYTES, from = registers->rsp - 128;
    if (registers->rsp < low + 128 || registers->rsp >= high)
        return false;
    struct iovec local = {(void *)from, high - from}, remote = local;
    if (process_vm_readv(child, &local, 1, &remote, 1, 0) != (ssize_t)local.iov_len)
        return false;
    struct walk_bounds bounds = {.thread = {low, high}};
    struct unwind_registers start;
    registers_of(registers, &start);
    walk_from_registers(&start, &modules.map, &cache, &bounds, pcs, DEPTH, result);
    check_with_memo(&start, &bounds, pcs, result);
    check_copy(&start, high, pcs, result);
    return true;
}

static uint32_t walk_theirs(unw_addr_space_t space, void *upt, uint64_t *pcs) {
    unw_cursor_t cursor;
    uint32_t depth = 0;
    if (unw_init_remote(&cursor, space, upt) != 0)
        return 0;
    do {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        if (pc == 0)
            break;
        pcs[depth++] = pc;
    } while (depth < DEPTH && unw_step(&cursor) > 0);
    return depth;
}

static bool is_equal(const uint64_t *ours, const struct walk_result *result, const uint64_t *theirs,
                     uint32_t their_depth) {
    if (result->depth != their_depth)
        return false;
    for (uint32_t i = 0; i < their_depth; i++)
        if ((ours[i] & ~RING_PC_EXACT) != theirs[i])
            return false;
    return true;
}

static void print_difference(const uint64_t *ours, const struct walk_result *result,
                             const uint64_t *theirs, uint32_t their_depth) {
    const struct walk_module *module = walk_map_find(&modules.map, ours[0]);
    printf("at %s+%#lx: ours %u frames (end %u), libunwind's %u\n",
           module ? modules.names[module - modules.modules] : "?",
           (unsigned long)(ours[0] - (module ? module->start : 0)), result->depth, result->end,
           their_depth);
    for (uint32_t i = 0; i < result->depth && i < their_depth && i < 8; i++)
        printf("   %lx %lx\n", (unsigned long)ours[i], (unsigned long)theirs[i]);
}

/* The true stack: the calls that were executed and have not returned, with the place of each return
 * address. libunwind is wrong in some epilogues, where it restores a register that the function has
 * already restored (see settle_saved in cfi_program.c). */
static struct {
    struct user_regs_struct before;
    uint64_t slots[MAX_CALLS], returns[MAX_CALLS];
    uint32_t count;
} calls;

static void track_calls(pid_t child) {
    struct user_regs_struct now;
    if (ptrace(PTRACE_GETREGS, child, 0, &now) != 0)
        return;
    while (calls.count > 0 && calls.slots[calls.count - 1] < now.rsp)
        calls.count--;
    uint64_t skipped = now.rip - calls.before.rip;
    if (now.rsp == calls.before.rsp - 8 && skipped > 15 && calls.count < MAX_CALLS) {
        uint64_t word = (uint64_t)ptrace(PTRACE_PEEKDATA, child, now.rsp, 0);
        calls.slots[calls.count] = now.rsp;
        calls.returns[calls.count] = word;
        calls.count += word - calls.before.rip <= 15 && now.rsp - (uint64_t)stack < STACK_BYTES;
    }
    calls.before = now;
}

static bool is_true(const uint64_t *ours, const struct walk_result *result) {
    if (calls.count == 0 || result->depth <= calls.count)
        return false;
    for (uint32_t i = 0; i < calls.count; i++)
        if ((ours[i + 1] & ~RING_PC_EXACT) != calls.returns[calls.count - 1 - i])
            return false;
    return true;
}

static struct { uint64_t steps, different, theirs_wrong; } count;
static uint8_t times[1 << 16]; /* how often a pc was compared, by its hash */

static bool is_new_enough(void) {
    uint8_t *compared = &times[calls.before.rip * 0x9e3779b97f4a7c15ull >> 48];
    return *compared < TIMES && ++*compared;
}

static void compare_here(pid_t child, unw_addr_space_t space, void *upt) {
    uint64_t ours[DEPTH], theirs[DEPTH];
    struct user_regs_struct registers;
    struct walk_result result;
    if (ptrace(PTRACE_GETREGS, child, 0, &registers) != 0 ||
        !walk_ours(child, &registers, ours, &result))
        return;
    uint32_t their_depth = walk_theirs(space, upt, theirs);
    count.steps++;
    if (is_equal(ours, &result, theirs, their_depth))
        return;
    if (is_true(ours, &result)) {
        count.theirs_wrong++;
        return;
    }
    if (count.different++ < 12)
        print_difference(ours, &result, theirs, their_depth);
}

static bool step(pid_t child) {
    int status;
    return ptrace(PTRACE_SINGLESTEP, child, 0, 0) == 0 && waitpid(child, &status, 0) == child &&
           WIFSTOPPED(status);
}

static void follow(pid_t child, bool all) {
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    void *upt = _UPT_create(child);
    unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
    for (int i = 0; i < (all ? MAX_STEPS : MORE_STEPS) && step(child); i++) {
        track_calls(child);
        if (all || is_new_enough())
            compare_here(child, space, upt);
    }
    _UPT_destroy(upt);
    unw_destroy_addr_space(space);
}

static void step_through(bool all, uint64_t least) {
    int status;
    memset(&count, 0, sizeof count);
    memset(&calls, 0, sizeof calls);
    memset(times, 0, sizeof times);
    if (!stack)
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    subject(3);
    modules_init(&modules);
    pid_t child = fork();
    if (child == 0)
        run_child();
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
        check_skip("this machine does not allow ptrace");
    follow(child, all);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    modules_finish(&modules);
    printf("%lu instructions, %lu different, %lu where libunwind is wrong\n",
           (unsigned long)count.steps, (unsigned long)count.different,
           (unsigned long)count.theirs_wrong);
    CHECK_INT(count.steps, >, least);
    CHECK_INT(count.different * 1000, <=, count.steps);
    CHECK_INT(copied.walks, >=, count.steps);
    CHECK_INT(copied.different, ==, 0);
}

TEST(at_every_instruction_the_walk_equals_libunwinds) {
    step_through(true, 5000);
}

static void step_compiled(const char *compiler_and_flags) {
    char path[64], line[512];
    int fd = mkstemp(temporary_template(path, sizeof path));
    close(fd);
    snprintf(
        line, sizeof line,
        "PATH=/usr/bin:/bin %s -D_GNU_SOURCE -I. -w -shared -fPIC -o %s tests/unit/unwind/work.c "
        "-lm 2>&1",
        compiler_and_flags, path);
    int status = system(line);
    void *library = status == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        unlink(path);
        check_skip("cannot run %s", compiler_and_flags);
    }
    subject = (unsigned long (*)(unsigned))dlsym(library, "work_short");
    CHECK(subject != NULL);
    step_through(false, 1000);
    subject = work_short;
    unlink(path); /* not before its table was built from it */
    dlclose(library);
}

TEST(at_every_instruction_of_gcc_without_optimisation) {
    step_compiled("gcc -O0");
}

TEST(at_every_instruction_of_gcc_o1) {
    step_compiled("gcc -O1 -fno-omit-frame-pointer");
}

TEST(at_every_instruction_of_gcc_o2) {
    step_compiled("gcc -O2 -fno-omit-frame-pointer -fstack-protector-all");
}

TEST(at_every_instruction_of_gcc_o3) {
    step_compiled("gcc -O3 -march=native -fcf-protection=full");
}

TEST(at_every_instruction_of_gcc_os) {
    step_compiled("gcc -Os");
}

TEST(at_every_instruction_of_clang_without_optimisation) {
    step_compiled("clang -O0");
}

TEST(at_every_instruction_of_clang_o1) {
    step_compiled("clang -O1 -fno-omit-frame-pointer");
}

TEST(at_every_instruction_of_clang_o2) {
    step_compiled("clang -O2 -fomit-frame-pointer");
}

TEST(at_every_instruction_of_clang_o3) {
    step_compiled("clang -O3 -march=native");
}
