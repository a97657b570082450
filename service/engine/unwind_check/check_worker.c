/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/unwind_check/check_worker.h"

#include "service/engine/unwind_check/other_library.h"
#include "service/engine/unwind_check/other_walk.h"
#include "service/symbol/worker/confine.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS 256u /* places whose row is described */

struct compare {
    uint8_t *memory;
    size_t bytes;
    struct other_walker *walker;
    uint64_t described[ROWS]; /* pcs of these places */
    uint32_t described_count;
};

bool check_worker_is_asked(int argc, char **argv) {
    return argc == 2 && strcmp(argv[1], CHECK_ARGUMENT) == 0;
}

/* The walks differ if one of them has a caller that the other one does not have. */
static bool differs(const struct check_stack *stack, const struct check_result *result) {
    if (result->equal == stack->count && result->equal == result->count)
        return false;
    if (result->equal == result->count)
        return result->end != CHECK_RED_ZONE && result->end != CHECK_DEPTH;
    return result->equal < stack->count || stack->is_whole;
}

/* Whether the place is a new one, of which the row has to be described. */
static bool is_new_place(struct compare *compare, uint64_t pc) {
    for (uint32_t i = 0; i < compare->described_count; i++)
        if (compare->described[i] == pc)
            return false;
    if (compare->described_count == ROWS)
        return false;
    compare->described[compare->described_count++] = pc;
    return true;
}

static void compare_one(struct compare *compare, const struct check_stack *stack,
                        struct check_result *result) {
    uint64_t pcs[CHECK_MAX_FRAMES];
    enum check_end end;
    const uint8_t *bytes = compare->memory + stack->stack_at;
    const uint64_t *ours = (const uint64_t *)(compare->memory + stack->pcs_at);
    struct check_result made = {.is_done = 1};
    made.count = other_walk(compare->walker, stack, bytes, pcs, &end);
    made.end = end;
    while (made.equal < made.count && made.equal < stack->count &&
           pcs[made.equal] == ours[made.equal])
        made.equal++;
    made.differs = differs(stack, &made);
    if (made.differs && made.count) {
        made.other = made.equal < made.count ? pcs[made.equal] : 0;
        uint32_t at = made.equal ? made.equal - 1 : 0;
        if (is_new_place(compare, pcs[at]))
            other_walk_row(compare->walker, stack, bytes, at, made.row);
    }
    *result = made;
}

static bool is_inside(const struct compare *compare, uint64_t at, uint64_t len) {
    return at <= compare->bytes && len <= compare->bytes - at;
}

enum check_exit check_compare(void *memory, size_t bytes) {
    struct compare compare = {.memory = memory, .bytes = bytes};
    const struct check_header *header = memory;
    if (bytes < sizeof *header || header->magic != CHECK_MAGIC || header->bytes != bytes ||
        header->module_count > CHECK_MAX_MODULES || header->stack_count > CHECK_MAX_STACKS ||
        check_bytes_at(header->module_count, header->stack_count) > bytes)
        return CHECK_BROKEN;
    compare.walker =
        other_walker_create((void *)(compare.memory + check_modules_at()), header->module_count);
    if (!compare.walker)
        return CHECK_NO_MEMORY;
    const struct check_stack *stacks =
        (void *)(compare.memory + check_stacks_at(header->module_count));
    struct check_result *results =
        (void *)(compare.memory + check_results_at(header->module_count, header->stack_count));
    for (uint32_t i = 0; i < header->stack_count; i++)
        if (stacks[i].pcs_at % 8 == 0 && stacks[i].count <= CHECK_MAX_FRAMES &&
            is_inside(&compare, stacks[i].stack_at, stacks[i].stack_bytes) &&
            is_inside(&compare, stacks[i].pcs_at, 8ull * stacks[i].count))
            compare_one(&compare, &stacks[i], &results[i]);
    other_walker_destroy(compare.walker);
    return CHECK_DONE;
}

static enum check_exit work(void) {
    struct stat info;
    if (!other_library())
        return CHECK_NO_LIBUNWIND;
    if (!symbol_confine())
        return CHECK_NOT_CONFINED;
    if (fstat(CHECK_SHARED, &info) != 0)
        return CHECK_BROKEN;
    size_t bytes = (size_t)info.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, CHECK_SHARED, 0);
    return memory == MAP_FAILED ? CHECK_NO_MEMORY : check_compare(memory, bytes);
}

/* _exit, because exit handlers were not written for a process without its privileges. */
int check_worker_main(void) {
    prctl(PR_SET_NAME, "sonde-check"); /* not "exe", as it was started */
    _exit(work());
}
