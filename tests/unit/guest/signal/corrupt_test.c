/* SPDX-License-Identifier: Apache-2.0
 *
 * A million corrupt contexts: a walk never reads memory outside the bounds it was given. As in a
 * target, no SIGSEGV handler is installed, so one wrong load crashes the test. */
#include "service/guest/maps/module_map.h"
#include "service/guest/signal/bounds.h"

#include "tests/unit/check.h"
#include "tests/unit/guest/fake_tables.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 1000000
#define PAGE   4096u

static struct sampled_thread thread;
static uint64_t interesting[64];
static uint32_t interesting_count;
static uint64_t code[64];
static uint32_t code_count;

static void add_table(const struct maps_module *module) {
    sonde_guest_v1_Mapping mapping = {.start = module->start,
                                      .end = module->end,
                                      .offset = module->offset,
                                      .inode = module->inode};
    uint64_t bias, bytes;
    snprintf(mapping.path, sizeof mapping.path, "%s", module->path);
    int fd = fake_table(&mapping, &bias, &bytes);
    if (fd >= 0)
        CHECK_INT(module_map_add_table(1, module->start, bias, bytes, fd), ==, 0);
    if (code_count + 2 < 64) {
        code[code_count++] = module->start;
        code[code_count++] = module->end - module->start;
    }
}

static void prepare(struct maps *maps) {
    CHECK_INT(maps_init(maps), ==, 0);
    CHECK_INT(maps_read(maps), ==, 0);
    handler_state.areas = maps->areas;
    handler_state.pid = (uint32_t)getpid();
    handler_state.main_stack = maps->main_stack;
    CHECK_INT(module_map_set_modules(maps, 1), ==, 0);
    for (uint32_t i = 0; i < maps->module_count; i++)
        add_table(&maps->modules[i]);
    CHECK_INT(module_map_publish(), ==, 0);
}

/* Readable pages between unreadable ones, filled with addresses of code and of each other. */
static void make_traps(void) {
    for (int i = 0; i < 4; i++) {
        char *pages =
            mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        uint64_t *words = (uint64_t *)(pages + PAGE);
        for (uint32_t j = 0; j < 2 * PAGE / 8; j++)
            words[j] = j % 3 ? code[(j * 2) % code_count] + j * 16
                             : (uint64_t)pages + PAGE + (j * 40503u) % (2 * PAGE);
        CHECK(mprotect(pages, PAGE, PROT_NONE) == 0);
        CHECK(mprotect(pages + 3 * PAGE, PAGE, PROT_NONE) == 0);
        for (uint64_t at = 0; at <= 4 * PAGE; at += PAGE)
            interesting[interesting_count++] = (uint64_t)pages + at;
    }
    interesting[interesting_count++] = handler_state.main_stack.high - 64;
    interesting[interesting_count++] = (uint64_t)&interesting;
    interesting[interesting_count++] = 0;
    interesting[interesting_count++] = 1ull << 47;
    interesting[interesting_count++] = UINT64_MAX;
}

static uint64_t random_word(void) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t random_address(void) {
    uint64_t base = interesting[random_word() % interesting_count];
    switch (random_word() % 4) {
    case 0:
        return random_word();
    case 1:
        return base + random_word() % PAGE;
    case 2:
        return base - random_word() % 256;
    default:
        return base + random_word() % 256 * 8;
    }
}

static uint64_t random_code(void) {
    uint64_t at = random_word() % (code_count / 2) * 2;
    return random_word() % 8 ? code[at] + random_word() % code[at + 1] : random_address();
}

static void make_context(ucontext_t *context) {
    memset(context, 0, sizeof *context);
    for (int i = 0; i < NGREG; i++)
        context->uc_mcontext.gregs[i] = (greg_t)random_address();
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)random_code();
    if (random_word() % 3 == 0)
        context->uc_mcontext.gregs[REG_RBP] =
            context->uc_mcontext.gregs[REG_RSP] + (greg_t)(random_word() % 512);
}

TEST(corrupt_contexts_never_make_the_walk_read_elsewhere) {
    struct maps maps = {0};
    struct walk_cache *cache = aligned_alloc(64, (sizeof *cache + 63) & ~63ull);
    uint64_t pcs[RING_MAX_DEPTH], ends[RING_END_COUNT] = {0}, deep = 0;
    prepare(&maps);
    make_traps();
    memset(cache, 0, sizeof *cache);
    for (int i = 0; i < ROUNDS; i++) {
        ucontext_t context;
        struct walk_stack extra;
        struct walk_bounds bounds;
        struct walk_result walked;
        make_context(&context);
        thread.tid = i % 2 ? handler_state.pid : 1;
        if (i % 1000 == 0)
            thread.stack = (struct walk_stack){0, 0};
        bounds_find(&thread, &context, &extra, &bounds);
        walk_from_context(&context, &handler_state.map->walk, cache, &bounds, pcs, RING_MAX_DEPTH,
                          &walked);
        CHECK(walked.depth >= 1 && walked.depth <= RING_MAX_DEPTH && walked.end < RING_END_COUNT);
        CHECK(pcs[0] == ((uint64_t)context.uc_mcontext.gregs[REG_RIP] & ~RING_PC_EXACT));
        ends[walked.end]++;
        deep += walked.depth > 2;
    }
    CHECK_INT(deep, >, ROUNDS / 1000); /* some walks have callers */
    CHECK_INT(ends[RING_END_BAD_STACK], >, ROUNDS / 10);
    free(cache);
    module_map_clear();
    maps_finish(&maps);
}

#define COPIES     50000
#define COPY_WORDS 64u

/* Only the code of modules can be read. */
static bool read_code(void *context, uint64_t address, void *to, uint32_t len) {
    for (uint32_t i = 0; i < code_count; i += 2)
        if (address >= code[i] && address + len <= code[i] + code[i + 1]) {
            memcpy(to, (const void *)address, len);
            return true;
        }
    return false;
}

/* Words that point to code, to higher stack addresses, or nowhere. */
static void fill_copy(uint64_t *words, uint32_t count, uint64_t low) {
    for (uint32_t i = 0; i < count; i++)
        words[i] = random_word() % 2   ? random_code()
                   : random_word() % 2 ? low + random_word() % (COPY_WORDS * 8)
                                       : random_address();
}

/* Copies that end where readable memory ends, of stacks at random addresses. */
TEST(corrupt_copies_never_make_the_walk_read_elsewhere) {
    struct maps maps = {0};
    uint64_t pcs[RING_MAX_DEPTH], guessed = 0, deep = 0;
    prepare(&maps);
    char *page = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0 && mprotect(page + 2 * PAGE, PAGE, PROT_NONE) == 0);
    for (int i = 0; i < COPIES; i++) {
        uint32_t words = (uint32_t)(random_word() % (COPY_WORDS + 1));
        uint64_t *bytes = (uint64_t *)(page + 2 * PAGE) - words;
        uint64_t low = random_address() & ~7ull;
        struct walk_copy copy = {low, low + words * 8, bytes, read_code, NULL};
        struct walk_result walked;
        fill_copy(bytes, words, low);
        walk_from_copy(random_code(), low + random_word() % (COPY_WORDS * 8),
                       &handler_state.map->walk, &copy, pcs, RING_MAX_DEPTH, &walked);
        CHECK(walked.depth >= 1 && walked.depth <= RING_MAX_DEPTH && walked.end < RING_END_COUNT);
        guessed += walked.fp_frames > 0;
        deep += walked.depth > 2;
    }
    CHECK_INT(guessed, >, COPIES / 1000);
    CHECK_INT(deep, >, COPIES / 1000);
    munmap(page, 3 * PAGE);
    module_map_clear();
    maps_finish(&maps);
}
