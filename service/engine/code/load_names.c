/* SPDX-License-Identifier: Apache-2.0
 *
 * Has workers load the symbol tables of mappings while the capture that sampled them still runs. */
#include "service/engine/code/tables.h"

#include <stdlib.h>

struct names_job {
    struct job job;
    struct target *target;
    struct mapping *mapping;
};

/* Any query makes service/symbol build or load the module's symbol table. */
static void fetch_names(struct job *base) {
    struct names_job *job = container_of(base, struct names_job, job);
    struct symbol_module *module = mapping_module(job->mapping);
    if (atomic_load(&base->engine->is_ending))
        return;
    if (module && job->mapping->has_bias) {
        struct symbol_query query = {.module = module,
                                     .vaddr = job->mapping->start - job->mapping->bias};
        struct symbol_answer answer;
        struct sonde_arena arena = {0};
        sonde_err err = symbol_resolve(base->engine->symbols, &query, 1, &arena, &answer);
        sonde_arena_finish(&arena);
        if (err)
            return;
    }
    atomic_store_explicit(&job->mapping->has_names, true, memory_order_release);
}

static void on_fetched(struct engine *engine, struct job *base) {
    struct names_job *job = container_of(base, struct names_job, job);
    target_wake_now(job->target);
    mapping_release(job->mapping);
    target_release(job->target);
    free(job);
}

void tables_load_mapping_names(struct target *target, struct mapping *mapping) {
    struct names_job *job = calloc(1, sizeof *job);
    if (!job)
        return;
    job->job.perform = fetch_names;
    job->job.complete = on_fetched;
    job->target = target_retain(target);
    job->mapping = mapping_retain(mapping);
    mapping->is_loading_names = true;
    target_start_job(target, target->engine->builders, &job->job);
}

bool tables_are_converting(const struct stacks *stacks) {
    for (uint32_t i = 1; i < stacks->mappings.count; i++) {
        struct symbol_module *module = mapping_module(stacks_mapping(stacks, i));
        if (module && symbol_module_is_converting(module))
            return true;
    }
    return false;
}

bool tables_load_names(struct target *target, struct stacks *stacks) {
    bool all_loaded = true;
    for (uint32_t i = 1; i < stacks->mappings.count; i++) {
        struct mapping *mapping = stacks_mapping(stacks, i);
        if (atomic_load_explicit(&mapping->has_names, memory_order_acquire))
            continue;
        all_loaded = false;
        if (mapping->is_opened && !mapping->is_loading_names)
            tables_load_mapping_names(target, mapping);
    }
    return all_loaded;
}
