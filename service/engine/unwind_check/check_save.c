/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack with all that its walk needs, so that it can be repeated elsewhere. */
#include "service/engine/unwind_check/check_run.h"
#include "service/engine/unwind_check/check_text.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TABLE  (2u << 20)
#define MAX_TABLES (8u << 20) /* an answer has at most 32 MiB */

/* How much a walk's end needs looking at; 0 = not. */
static int rank_of(const struct check_run *run, uint32_t number) {
    switch (run->stacks[number].end) {
    case UNWIND_COPY_NO_CODE:
    case UNWIND_COPY_NO_TABLE:
    case UNWIND_COPY_RULE:
    case UNWIND_COPY_BAD_STACK:
        return 3;
    case UNWIND_COPY_SHORT:
    case UNWIND_COPY_DEPTH:
        return 2;
    default:
        return run->results[number].is_done && run->results[number].differs;
    }
}

/* run->count if there is none. */
static uint32_t choose(const struct check_run *run) {
    uint32_t chosen = run->count;
    int best = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        int rank = rank_of(run, i);
        if (rank > best) {
            best = rank;
            chosen = i;
        }
    }
    return chosen;
}

static bool holds(const struct code_region *region, const uint64_t *pcs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t pc = pcs[i] - (i > 0); /* a return address may be the first byte after the code */
        if (pc >= region->mapping->start && pc < region->mapping->end)
            return true;
    }
    return false;
}

static void save_module(const struct code_region *region, struct engine_saved_module *module,
                        size_t *left) {
    const struct symbol_module *file = mapping_module(region->mapping);
    *module = (struct engine_saved_module){.start = region->mapping->start,
                                           .end = region->mapping->end,
                                           .bias = region->mapping->bias,
                                           .path = file ? symbol_module_path(file) : "",
                                           .build_id = file ? symbol_module_build_id(file) : ""};
    if (!region->image || region->bytes > MAX_TABLE || region->bytes > *left)
        return;
    module->table = region->image;
    module->table_bytes = region->bytes;
    *left -= region->bytes;
}

static sonde_err save_modules(struct check_run *run, struct engine_saved_stack *saved) {
    size_t left = MAX_TABLES;
    uint32_t count = run->code.generation->count;
    struct engine_saved_module *modules =
        sonde_arena_alloc(&run->arena, (count + 1) * sizeof *modules);
    if (!modules)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        if (run->code.regions[i].is_open && holds(&run->code.regions[i], saved->pcs, saved->count))
            save_module(&run->code.regions[i], &modules[saved->module_count++], &left);
    saved->modules = modules;
    return SONDE_OK;
}

sonde_err check_save_stack(struct check_run *run, struct engine_unwind_check *answer) {
    uint32_t number = choose(run);
    if (number == run->count)
        return SONDE_OK;
    const struct check_sampled *chosen = &run->stacks[number];
    struct engine_saved_stack *saved = sonde_arena_alloc(&run->arena, sizeof *saved);
    if (!saved)
        return SONDE_OUT_OF_MEMORY;
    *saved = (struct engine_saved_stack){
        .end = check_end_text(chosen->end),
        .registers = chosen->stack.registers,
        .register_count = UNWIND_REGISTERS,
        .pcs = (const uint64_t *)(run->bytes.data + chosen->stack.pcs_at),
        .count = chosen->stack.count,
        .stack = (const uint8_t *)run->bytes.data + chosen->stack.stack_at,
        .stack_bytes = chosen->stack.stack_bytes,
    };
    answer->saved = saved;
    return save_modules(run, saved);
}
