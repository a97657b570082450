/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for runtime addresses of a target, for example from a profile or a debugger. No capture is
 * needed: the memory map is read from /proc. Addresses that are not in it are looked up in the
 * newest map of a capture, which may have libraries that were unloaded since. */
#include "service/engine/symbols/symbolize.h"
#include "service/engine/code/tables.h"
#include "service/engine/report/report.h"
#include "service/engine/symbols/allocator_code.h"
#include "service/engine/targets/find_target.h"
#include "service/symbol/files/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_START 0xffff800000000000ull

struct symbolize_job {
    struct job job;
    struct message begin;
    struct target *target;
    struct symbol_module *kernel; /* retained; NULL = not needed yet */
    struct generation *known;     /* mappings of the newest captured map; NULL = none */
    uint64_t *addresses;
    size_t count;
    bool return_addresses;
    engine_on_symbols *on_answer;
    void *context;
};

static void job_free(struct symbolize_job *job) {
    generation_destroy(job->known);
    symbol_module_release(job->kernel);
    target_release(job->target);
    free(job->addresses);
    free(job);
}

void symbolize_module(struct engine_symbol *symbol, struct symbol_module *module) {
    symbol->module = symbol_module_base_name(module);
    symbol->build_id = symbol_module_build_id(module);
    symbol->kind = report_kind(module);
}

/* Finding out why a module has no lines is expensive, and many addresses share the answer. A cache
 * in which a new module overwrites an old one. */
struct shortfalls {
    struct {
        struct symbol_module *module;
        const char *text;
    } known[256];
};

static const char *shortfall_of(struct shortfalls *shortfalls, struct symbol_module *module) {
    size_t at = ((uintptr_t)module >> 6) % (sizeof shortfalls->known / sizeof *shortfalls->known);
    if (shortfalls->known[at].module != module) {
        shortfalls->known[at].module = module;
        shortfalls->known[at].text = symbol_module_shortfall(module);
        /* The line table became ready after the names were resolved; the next request uses it. */
        if (!shortfalls->known[at].text[0] && symbol_module_fd(module) >= 0)
            shortfalls->known[at].text = symbol_converting;
    }
    return shortfalls->known[at].text;
}

/* The frames are the same as in profiles. */
static sonde_err set_frames(struct engine_symbol *symbol, const struct symbol_answer *answer,
                            struct sonde_arena *arena) {
    struct symbol_frame unnamed, *copy;
    symbol->frame_count = symbol_answer_frames(answer, &unnamed, &symbol->frames);
    if (symbol->frame_count == 0 || symbol->frames != &unnamed)
        return SONDE_OK;
    copy = sonde_arena_alloc(arena, sizeof *copy);
    if (copy)
        *copy = unnamed;
    symbol->frames = copy;
    return copy ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err symbolize_answer(struct engine *engine, const struct symbol_query *queries,
                           struct engine_symbol *symbols, size_t count,
                           engine_on_symbols *on_answer, void *context) {
    struct sonde_arena arena = {0};
    struct shortfalls shortfalls = {0};
    struct allocator_code allocators = {0};
    struct symbol_answer *answers = calloc(count + 1, sizeof *answers);
    sonde_err err = answers ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = symbol_resolve(engine->symbols, queries, count, &arena, answers);
    for (size_t i = 0; i < count && !err; i++) {
        struct engine_symbol *symbol = &symbols[i];
        err = set_frames(symbol, &answers[i], &arena);
        symbol->quality = answers[i].quality;
        symbol->is_folded = answers[i].is_folded;
        if (answers[i].frame_count == 0)
            symbol->allocator_name = allocator_code_name(&allocators, &queries[i]);
        if (queries[i].module && symbol->quality != SYMBOL_FULL)
            symbol->reason = shortfall_of(&shortfalls, queries[i].module);
        symbol->is_improving =
            symbol->reason == symbol_converting || symbol->reason == symbol_fetching;
    }
    if (!err)
        on_answer(context, SONDE_OK, NULL, symbols, count);
    free(answers);
    sonde_arena_finish(&arena);
    return err;
}

/* The kernel hides its addresses from users. A user who gets names for addresses could find them by
 * trying. */
static bool may_know_kernel(const struct target *target) {
    return geteuid() != 0 || target->uid == 0;
}

/* Kernel addresses are in no process's map. */
static bool locate_in_kernel(struct symbolize_job *job, uint64_t address, uint64_t inside,
                             struct symbol_query *query, struct engine_symbol *symbol) {
    if (inside < KERNEL_START)
        return false;
    if (!may_know_kernel(job->target)) {
        symbol->module = "[kernel]";
        symbol->reason = symbol_reason_text(SYMBOL_REASON_KERNEL_HIDDEN);
        return true;
    }
    if (!job->kernel &&
        symbol_module_open_kernel(job->job.engine->symbols, &job->kernel, NULL) != SONDE_OK)
        return false;
    symbolize_module(symbol, job->kernel);
    symbol->module_offset = address;
    *query = (struct symbol_query){.module = job->kernel, .vaddr = inside};
    return true;
}

/* Sets the parts of an answer that need no symbol table, and the query for the others. */
static void locate(struct symbolize_job *job, const struct generation *now, uint64_t address,
                   struct symbol_query *query, struct engine_symbol *symbol) {
    uint64_t inside = job->return_addresses && address > 0 ? address - 1 : address;
    struct mapping *mapping = now ? generation_find(now, inside) : NULL;
    if (!mapping && job->known)
        mapping = generation_find(job->known, inside);
    *symbol = (struct engine_symbol){.module = "", .build_id = "", .reason = ""};
    if (!mapping && locate_in_kernel(job, address, inside, query, symbol))
        return;
    if (!mapping)
        return;
    tables_open_mapping(job->job.engine, &job->target->process, mapping);
    struct symbol_module *module = mapping_module(mapping);
    if (!module)
        return;
    symbolize_module(symbol, module);
    query->module_name = mapping_program_name(mapping);
    if (query->module_name)
        symbol->module = query->module_name;
    if (!mapping->has_bias)
        return;
    symbol->module_offset = address - mapping->bias;
    query->module = module;
    query->vaddr = inside - mapping->bias;
}

static sonde_err answer(struct symbolize_job *job, const struct generation *now) {
    size_t count = job->count;
    struct symbol_query *queries = calloc(count + 1, sizeof *queries);
    struct engine_symbol *symbols = calloc(count + 1, sizeof *symbols);
    sonde_err err = queries && symbols ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++)
        locate(job, now, job->addresses[i], &queries[i], &symbols[i]);
    if (!err)
        err = symbolize_answer(job->job.engine, queries, symbols, count, job->on_answer,
                               job->context);
    free(queries);
    free(symbols);
    return err;
}

static void perform(struct job *base) {
    struct symbolize_job *job = container_of(base, struct symbolize_job, job);
    struct sonde_diag diag = {0};
    struct generation *now = tables_read_maps(&job->target->process, job->known);
    sonde_err err = SONDE_OK;
    if (!now && !job->known)
        err = sonde_fail(&diag, SONDE_NOT_AVAILABLE, "the memory map of %s cannot be read",
                         job->target->info.name);
    else
        err = answer(job, now);
    if (err)
        job->on_answer(job->context, err, &diag, NULL, 0);
    generation_destroy(now);
}

static void complete(struct engine *engine, struct job *base) {
    job_free(container_of(base, struct symbolize_job, job));
}

/* Copies the newest captured map on the engine thread, to which it belongs. Skips mappings that a
 * worker has not opened, because only one thread may fill in a mapping. */
static struct generation *share_newest(const struct target *target) {
    const struct generation *newest = target->space.generations[0];
    struct generation *copy = newest ? generation_create(newest->number) : NULL;
    if (!copy)
        return NULL;
    copy->mappings = calloc(newest->count + 1, sizeof *copy->mappings);
    for (uint32_t i = 0; i < newest->count && copy->mappings; i++) {
        if (newest->mappings[i]->is_opened && mapping_module(newest->mappings[i]))
            copy->mappings[copy->count++] = mapping_retain(newest->mappings[i]);
    }
    return copy;
}

static void on_begin(struct engine *engine, struct message *message) {
    struct symbolize_job *job = container_of(message, struct symbolize_job, begin);
    job->known = share_newest(job->target);
    target_start_job(job->target, engine->builders, &job->job);
}

sonde_err engine_symbolize(struct engine *engine, const struct engine_selector *selector,
                           const uint64_t *addresses, size_t count, bool return_addresses,
                           engine_on_symbols *on_answer, void *context, struct sonde_diag *diag) {
    if (count > ENGINE_MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%zu addresses: at most %d at a time", count,
                          ENGINE_MAX_ADDRESSES);
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct symbolize_job *job = calloc(1, sizeof *job);
    uint64_t *copy = calloc(count + 1, sizeof *copy);
    struct target *target = NULL;
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (job && copy)
        err = find_process(engine, selector, "names of addresses", &target, diag);
    if (err) {
        free(job);
        free(copy);
        return err;
    }
    if (count > 0)
        memcpy(copy, addresses, count * sizeof *copy);
    *job = (struct symbolize_job){
        .job = {.perform = perform, .complete = complete},
        .begin = {.run = on_begin},
        .target = target,
        .addresses = copy,
        .count = count,
        .return_addresses = return_addresses,
        .on_answer = on_answer,
        .context = context,
    };
    engine_post(engine, &job->begin);
    return SONDE_OK;
}
