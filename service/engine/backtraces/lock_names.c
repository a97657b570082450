/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the variables that locks are in. A variable is probably in a file whose code uses it, so
 * the files of a stack that waits for it are asked. Locks on the heap are in none. */
#include "service/engine/backtraces/backtraces_request.h"

#include <stdlib.h>

#define NEAR_FRAMES 32u
#define FILES       4u /* of a stack */

/* Adds a query for each file of the stack; the rest stays without a module, and so without a
 * name. */
static void add_queries(struct backtraces *all, const struct lock_variable *variable,
                        struct symbol_query queries[FILES]) {
    const struct backtraces_stack *stack = &all->stacks[variable->stack - 1];
    const struct symbol_module *last = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < stack->count && i < NEAR_FRAMES && count < FILES; i++) {
        struct code_region *region =
            process_code_at(&all->code, stack->pcs[i] & ~UNWIND_REMOTE_EXACT);
        struct symbol_module *module = region ? mapping_module(region->mapping) : NULL;
        if (!module || module == last || !region->mapping->has_bias ||
            symbol_module_is_memory(module))
            continue;
        last = module;
        queries[count++] = (struct symbol_query){
            .module = module, .vaddr = variable->address - region->mapping->bias};
    }
}

static void take_name(struct lock_variable *variable, const struct symbol_answer answers[FILES]) {
    for (uint32_t i = 0; i < FILES && !variable->name[0]; i++) {
        const struct symbol_frame *frame = answers[i].frame_count ? answers[i].frames : NULL;
        if (!frame || !frame->name[0])
            continue;
        variable->name = frame->name;
        variable->offset = frame->offset;
    }
}

sonde_err backtraces_name_variables(struct backtraces *all, struct lock_variable *variables,
                                    uint32_t count) {
    size_t room = (size_t)count * FILES;
    struct symbol_query *queries = calloc(room + 1, sizeof *queries);
    struct symbol_answer *answers = calloc(room + 1, sizeof *answers);
    sonde_err err = queries && answers ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; !err && i < count; i++)
        add_queries(all, &variables[i], &queries[(size_t)i * FILES]);
    if (!err)
        err = symbol_resolve(all->engine->symbols, queries, room, &all->arena, answers);
    for (uint32_t i = 0; !err && i < count; i++)
        take_name(&variables[i], &answers[(size_t)i * FILES]);
    free(queries);
    free(answers);
    return err;
}
