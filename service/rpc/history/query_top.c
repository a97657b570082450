/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryTop: the most expensive functions. Two functions of one name in different files or modules
 * are different functions; the same function at different lines is one. */
#include "api/base/array.h"
#include "api/hash_index.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/request/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FUNCTIONS 30
#define MAX_FUNCTIONS     10000

struct row {
    uint32_t name, file, module; /* string ids; name 0 = unknown */
    size_t last_sample; /* + 1: in which it was counted last, so that recursion counts once */
    int64_t self, total;
};

struct table {
    const struct sonde_profile *profile;
    struct hash_index index;
    struct row *rows;
    uint32_t count, capacity;
    size_t type; /* the sample type that is summed */
    int64_t total;
};

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* NULL when out of memory. */
static struct row *add_row(struct table *table, uint32_t hash, const struct row *key) {
    if (!array_room(&table->rows, &table->capacity, table->count, 1))
        return NULL;
    table->rows[table->count] = *key;
    return hash_index_add(&table->index, hash, table->count) ? &table->rows[table->count++] : NULL;
}

static struct row *find_row(struct table *table, const struct row *key) {
    uint32_t hash =
        hash_index_words(&table->index, (uint64_t)key->name << 32 | key->file, key->module);
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&table->index, &probe)) != HASH_INDEX_NONE) {
        struct row *row = &table->rows[number];
        if (row->name == key->name && row->file == key->file && row->module == key->module)
            return row;
    }
    return add_row(table, hash, key);
}

/* Counts one function on the stack of a sample. */
static sonde_err count(struct table *table, const struct row *key, size_t sample, int64_t value,
                       bool is_leaf) {
    struct row *row = find_row(table, key);
    if (!row)
        return SONDE_OUT_OF_MEMORY;
    if (is_leaf)
        row->self = add(row->self, value);
    if (row->last_sample != sample + 1)
        row->total = add(row->total, value);
    row->last_sample = sample + 1;
    return SONDE_OK;
}

static sonde_err add_location(struct table *table, uint32_t id, size_t sample, int64_t value,
                              bool is_leaf) {
    const struct sonde_location *location = sonde_profile_location(table->profile, id);
    struct row key = {.name = 0};
    sonde_err err = SONDE_OK;
    if (location->mapping)
        key.module = sonde_profile_mapping(table->profile, location->mapping)->filename;
    if (location->line_count == 0)
        return count(table, &key, sample, value, is_leaf);
    for (uint32_t i = 0; i < location->line_count && !err; i++) {
        const struct sonde_function *function =
            sonde_profile_function(table->profile, location->lines[i].function);
        key.name = function->name;
        key.file = function->filename;
        err = count(table, &key, sample, value, is_leaf && i == 0);
    }
    return err;
}

static sonde_err add_samples(struct table *table) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sonde_profile_sample_count(table->profile) && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(table->profile, i);
        int64_t value = sample.values[table->type];
        table->total = add(table->total, value);
        for (uint32_t j = 0; j < sample.location_count && !err; j++)
            err = add_location(table, sample.locations[j], i, value, j == 0);
    }
    return err;
}

/* ---- The answer ---- */

static int by_self(const void *left, const void *right) {
    const struct row *a = left, *b = right;
    if (a->self != b->self)
        return a->self < b->self ? 1 : -1;
    if (a->total != b->total)
        return a->total < b->total ? 1 : -1;
    return (a->name > b->name) - (a->name < b->name);
}

static int by_total(const void *left, const void *right) {
    const struct row *a = left, *b = right;
    if (a->total != b->total)
        return a->total < b->total ? 1 : -1;
    if (a->self != b->self)
        return a->self < b->self ? 1 : -1;
    return (a->name > b->name) - (a->name < b->name);
}

/* A frame without a name is shown as its module, as in pictures. */
static char *name_of(struct history_query *query, const struct table *table,
                     const struct row *row) {
    const char *module = sonde_profile_text(table->profile, row->module);
    const char *slash = strrchr(module, '/');
    char text[300];
    if (row->name)
        return (char *)sonde_profile_text(table->profile, row->name);
    snprintf(text, sizeof text, "[%s]", *module ? (slash ? slash + 1 : module) : "unknown");
    return sonde_arena_dup(&query->arena, text, strlen(text));
}

static sonde_err add_answer(struct history_query *query, const struct table *table,
                            Sonde__V1__Completeness *completeness, uint32_t limit) {
    Sonde__V1__QueryTopResponse response = SONDE__V1__QUERY_TOP_RESPONSE__INIT;
    uint32_t shown = table->count < limit ? table->count : limit;
    Sonde__V1__TopFunction *all = sonde_arena_alloc(&query->arena, (shown + 1) * sizeof *all);
    response.functions = sonde_arena_alloc(&query->arena, (shown + 1) * sizeof(void *));
    if (!all || !response.functions)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < shown; i++) {
        const struct row *row = &table->rows[i];
        sonde__v1__top_function__init(&all[i]);
        if (!(all[i].name = name_of(query, table, row)))
            return SONDE_OUT_OF_MEMORY;
        all[i].file = (char *)sonde_profile_text(table->profile, row->file);
        all[i].module = (char *)sonde_profile_text(table->profile, row->module);
        all[i].self = row->self;
        all[i].total = row->total;
        response.functions[response.n_functions++] = &all[i];
    }
    response.total = table->total;
    response.unit = (char *)sonde_profile_type(table->profile, table->type).unit;
    response.omitted = table->count - shown;
    response.completeness = completeness;
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err answer(struct history_query *query, const struct history_selection *selection,
                        const struct store_profile *profile, uint32_t limit,
                        struct sonde_diag *diag) {
    const Sonde__V1__QueryTopRequest *request = (const void *)query->request;
    struct table table = {.profile = profile->profile,
                          .type = sonde_profile_type_count(profile->profile) - 1};
    Sonde__V1__Completeness completeness;
    hash_index_init(&table.index);
    sonde_err err = history_completeness(query, selection, &profile->merge, &completeness, diag);
    completeness.unknown_stacks = profile->unknown_stacks;
    if (!err)
        err = add_samples(&table);
    if (!err && table.count)
        qsort(table.rows, table.count, sizeof *table.rows, request->by_total ? by_total : by_self);
    if (!err)
        err = add_answer(query, &table, &completeness, limit);
    hash_index_finish(&table.index);
    free(table.rows);
    return err;
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QueryTopRequest *request = (const void *)query->request;
    struct history_selection selection = {.selector = NULL};
    struct store_profile profile = {.profile = NULL};
    uint32_t limit;
    sonde_err err =
        rpc_number("limit", request->limit, DEFAULT_FUNCTIONS, 1, MAX_FUNCTIONS, &limit, diag);
    if (!err)
        err = history_selection_read(query, request->selection, "selection", &selection, diag);
    if (!err)
        err = history_selection_profile(query, &selection, &profile, diag);
    if (!err)
        err = answer(query, &selection, &profile, limit, diag);
    sonde_profile_destroy(profile.profile);
    history_selection_finish(&selection);
    return err;
}

void rpc_query_top(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
