/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/name_files.h"

#include "api/base/container_of.h"
#include "service/engine/pool.h"
#include "service/symbol/files/files.h"
#include "service/symbol/symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct name_files {
    struct symbol_store *symbols;
    struct pool *pool;
};

struct name_job {
    struct name_files *files;
    struct engine_work work;
    const struct engine_symbol_mapping *mappings; /* sorted, borrowed until the answer */
    size_t mapping_count, count;
    engine_on_symbols *on_answer;
    void *context;
    uint64_t addresses[];
};

sonde_err name_files_create(const char *dir, const char *debuginfod, struct name_files **created,
                            struct sonde_diag *diag) {
    struct name_files *files = calloc(1, sizeof *files);
    const struct symbol_options options = {
        .cache_dir = dir, .worker = "/proc/self/exe", .debuginfod = debuginfod};
    if (!files)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = SONDE_OK;
    if (dir && mkdir(dir, 0700) != 0 && errno != EEXIST)
        err = sonde_fail_os(diag, errno, "cannot create the directory %s", dir);
    if (!err)
        err = symbol_store_create(&options, &files->symbols, diag);
    if (!err)
        err = pool_create("sonde-names", 1, UINT32_MAX, &files->pool, diag);
    if (err)
        name_files_destroy(files);
    else
        *created = files;
    return err;
}

void name_files_end(struct name_files *files) {
    if (files)
        symbol_store_end(files->symbols);
}

void name_files_destroy(struct name_files *files) {
    if (!files)
        return;
    pool_destroy(files->pool);
    symbol_store_destroy(files->symbols);
    free(files);
}

/* ---- One question (worker) ---- */

static void locate(const struct name_job *job, struct symbol_module *module,
                   struct symbol_query *queries) {
    for (size_t i = 0, at = 0; i < job->count; i++) {
        uint64_t address = job->addresses[i], bias;
        while (at + 1 < job->mapping_count && address >= job->mappings[at].end)
            at++;
        const struct symbol_mapping mapping = {.start = job->mappings[at].start,
                                               .end = job->mappings[at].end,
                                               .offset = job->mappings[at].offset,
                                               .path = ""};
        if (symbol_module_bias_of(module, &mapping, &bias))
            queries[i] = (struct symbol_query){.module = module, .vaddr = address - bias};
    }
}

/* A function without a symbol stays unnamed: a better file may come. */
static void resolve(struct name_job *job, struct symbol_module *module) {
    struct sonde_arena arena = {0};
    struct symbol_query *queries = calloc(job->count + 1, sizeof *queries);
    struct symbol_answer *answers = calloc(job->count + 1, sizeof *answers);
    struct engine_symbol *symbols = calloc(job->count + 1, sizeof *symbols);
    sonde_err err = queries && answers && symbols ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err) {
        locate(job, module, queries);
        err = symbol_resolve_wait(job->files->symbols, queries, job->count, HISTORY_NAMES_WAIT_MS,
                                  &arena, answers);
    }
    for (size_t i = 0; i < job->count && !err; i++)
        symbols[i] = (struct engine_symbol){.frames = answers[i].frames,
                                            .frame_count = answers[i].frame_count};
    job->on_answer(job->context, err, NULL, err ? NULL : symbols, job->count);
    free(queries);
    free(answers);
    free(symbols);
    sonde_arena_finish(&arena);
}

static void run(struct engine_work *work) {
    struct name_job *job = container_of(work, struct name_job, work);
    struct symbol_module *module = NULL;
    struct sonde_diag diag = {0};
    sonde_err err =
        symbol_module_find(job->files->symbols, job->mappings[0].build_id, &module, &diag);
    if (err)
        job->on_answer(job->context, err, &diag, NULL, 0);
    else
        resolve(job, module);
    symbol_module_release(module);
    free(job);
}

static sonde_err ask(void *context, const struct engine_symbol_source *source,
                     const uint64_t *addresses, size_t count, engine_on_symbols *on_answer,
                     void *answer_context) {
    struct name_files *files = context;
    struct name_job *job = calloc(1, sizeof *job + count * sizeof *addresses);
    if (!job || source->mapping_count == 0) {
        free(job);
        return SONDE_OUT_OF_MEMORY;
    }
    *job = (struct name_job){.files = files,
                             .work.run = run,
                             .mappings = source->mappings,
                             .mapping_count = source->mapping_count,
                             .count = count,
                             .on_answer = on_answer,
                             .context = answer_context};
    memcpy(job->addresses, addresses, count * sizeof *addresses);
    pool_add(files->pool, &job->work);
    return SONDE_OK;
}

struct history_namer name_files_namer(struct name_files *files) {
    return (struct history_namer){ask, files};
}
