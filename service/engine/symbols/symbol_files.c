/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for addresses without a target, and access to the symbol store's files for service/rpc. */
#include "service/engine/symbols/symbolize.h"
#include "service/symbol/files/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file_range {
    struct symbol_mapping mapping; /* the whole address space if a single file was given */
    char build_id[SYMBOL_BUILD_ID_TEXT];
    struct symbol_module *module; /* NULL = unknown */
    uint64_t bias;
    bool has_bias;
};

struct files_job {
    struct job job;
    struct file_range *ranges; /* sorted by start */
    size_t range_count;
    bool is_one_file; /* addresses are virtual addresses of the file */
    uint64_t *addresses;
    size_t count;
    bool return_addresses;
    engine_on_symbols *on_answer;
    void *context;
};

static void job_free(struct files_job *job) {
    for (size_t i = 0; job && i < job->range_count; i++)
        symbol_module_release(job->ranges[i].module);
    if (job) {
        free(job->ranges);
        free(job->addresses);
    }
    free(job);
}

/* Addresses in a mapping of an unknown file stay unnamed. */
static sonde_err open_ranges(struct files_job *job, struct sonde_diag *diag) {
    struct symbol_store *store = job->job.engine->symbols;
    for (size_t i = 0; i < job->range_count; i++) {
        struct file_range *range = &job->ranges[i];
        struct sonde_diag why = {0};
        sonde_err err = symbol_module_find(store, range->build_id, &range->module, &why);
        if (err && (job->is_one_file || err == SONDE_OUT_OF_MEMORY)) {
            *diag = why;
            return err;
        }
        range->has_bias = range->module && !job->is_one_file &&
                          symbol_module_bias_of(range->module, &range->mapping, &range->bias);
        range->has_bias = range->has_bias || job->is_one_file;
    }
    return SONDE_OK;
}

static const struct file_range *find_range(const struct files_job *job, uint64_t address) {
    size_t low = 0, high = job->range_count;
    if (job->is_one_file)
        return &job->ranges[0];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (job->ranges[middle].mapping.start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < job->ranges[low - 1].mapping.end ? &job->ranges[low - 1] : NULL;
}

static void locate(const struct files_job *job, uint64_t address, struct symbol_query *query,
                   struct engine_symbol *symbol) {
    uint64_t inside = job->return_addresses && address > 0 ? address - 1 : address;
    const struct file_range *range = find_range(job, inside);
    *symbol = (struct engine_symbol){.module = "", .build_id = "", .reason = ""};
    if (!range)
        return;
    symbol->build_id = range->build_id;
    symbol->reason = "UNKNOWN_BUILD_ID";
    if (!range->module)
        return;
    symbolize_module(symbol, range->module);
    symbol->reason = "NO_FILE"; /* without the file, the mapping's bias is unknown */
    if (!range->has_bias)
        return;
    symbol->reason = "";
    symbol->module_offset = address - range->bias;
    *query = (struct symbol_query){.module = range->module, .vaddr = inside - range->bias};
}

static sonde_err answer(struct files_job *job) {
    struct symbol_query *queries = calloc(job->count + 1, sizeof *queries);
    struct engine_symbol *symbols = calloc(job->count + 1, sizeof *symbols);
    sonde_err err = queries && symbols ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < job->count && !err; i++)
        locate(job, job->addresses[i], &queries[i], &symbols[i]);
    if (!err)
        err = symbolize_answer(job->job.engine, queries, symbols, job->count, job->on_answer,
                               job->context);
    free(queries);
    free(symbols);
    return err;
}

static void perform(struct job *base) {
    struct files_job *job = container_of(base, struct files_job, job);
    struct sonde_diag diag = {0};
    sonde_err err = open_ranges(job, &diag);
    if (!err)
        err = answer(job);
    if (err)
        job->on_answer(job->context, err, &diag, NULL, 0);
}

static void complete(struct engine *engine, struct job *base) {
    (void)engine;
    job_free(container_of(base, struct files_job, job));
}

static int by_start(const void *left, const void *right) {
    const struct file_range *a = left, *b = right;
    return (a->mapping.start > b->mapping.start) - (a->mapping.start < b->mapping.start);
}

static void add_range(struct files_job *job, const struct engine_symbol_mapping *from) {
    struct file_range *range = &job->ranges[job->range_count++];
    range->mapping = (struct symbol_mapping){
        .start = from->start, .end = from->end, .offset = from->offset, .path = ""};
    snprintf(range->build_id, sizeof range->build_id, "%s", from->build_id);
}

static struct files_job *job_create(const struct engine_symbol_source *source,
                                    const uint64_t *addresses, size_t count) {
    struct files_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->is_one_file = source->build_id && source->build_id[0];
    job->ranges = calloc(source->mapping_count + 1, sizeof *job->ranges);
    job->addresses = calloc(count + 1, sizeof *job->addresses);
    if (!job->ranges || !job->addresses) {
        job_free(job);
        return NULL;
    }
    struct engine_symbol_mapping whole = {.end = UINT64_MAX, .build_id = source->build_id};
    if (job->is_one_file)
        add_range(job, &whole);
    for (size_t i = 0; !job->is_one_file && i < source->mapping_count; i++)
        add_range(job, &source->mappings[i]);
    qsort(job->ranges, job->range_count, sizeof *job->ranges, by_start);
    if (count > 0)
        memcpy(job->addresses, addresses, count * sizeof *addresses);
    job->count = count;
    return job;
}

static void on_begin(struct engine *engine, struct message *message) {
    struct job *job = container_of(message, struct job, message);
    engine_start_job(engine, engine->builders, job);
}

sonde_err engine_symbolize_files(struct engine *engine, const struct engine_symbol_source *source,
                                 const uint64_t *addresses, size_t count, bool return_addresses,
                                 engine_on_symbols *on_answer, void *context,
                                 struct sonde_diag *diag) {
    if (count > ENGINE_MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%zu addresses: at most %d at a time", count,
                          ENGINE_MAX_ADDRESSES);
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct files_job *job = job_create(source, addresses, count);
    if (!job)
        return SONDE_OUT_OF_MEMORY;
    job->job.perform = perform;
    job->job.complete = complete;
    job->job.message.run = on_begin;
    job->return_addresses = return_addresses;
    job->on_answer = on_answer;
    job->context = context;
    engine_post(engine, &job->job.message);
    return SONDE_OK;
}

/* --- files -------------------------------------------------------------------------------------
 */

sonde_err engine_symbol_files(struct engine *engine, struct symbol_file **files, size_t *count,
                              struct sonde_diag *diag) {
    return symbol_files_list(engine->symbols, files, count, diag);
}

sonde_err engine_symbol_evict(struct engine *engine, const char *id, bool uploads,
                              struct symbol_evicted *evicted, struct sonde_diag *diag) {
    return symbol_files_evict(engine->symbols, id, uploads, evicted, diag);
}

sonde_err engine_upload_begin(struct engine *engine, uint64_t size, struct symbol_upload **upload,
                              struct sonde_diag *diag) {
    return symbol_upload_begin(engine->symbols, size, upload, diag);
}

sonde_err engine_upload_write(struct symbol_upload *upload, const void *bytes, size_t len,
                              struct sonde_diag *diag) {
    return symbol_upload_write(upload, bytes, len, diag);
}

uint64_t engine_upload_missing(const struct symbol_upload *upload) {
    return symbol_upload_missing(upload);
}

sonde_err engine_upload_finish(struct symbol_upload *upload, struct symbol_file *file,
                               struct sonde_diag *diag) {
    return symbol_upload_finish(upload, file, diag);
}

void engine_upload_abandon(struct symbol_upload *upload) {
    symbol_upload_abandon(upload);
}
