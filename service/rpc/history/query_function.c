/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryFunction: which services spend time in a function. A sample counts once in `total`, however
 * often the function is on its stack, and in `self` if it is the innermost one. */
#include "api/base/array.h"
#include "api/hash_index.h"
#include "api/text/wildcard.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_SERVICES 100
#define MAX_SERVICES     10000
#define MAX_FUNCTION     1024

struct use {
    const char *service;
    int64_t self, total, service_total;
};

/* How a location is part of the function, as its innermost line or as another one. */
enum match { MATCH_UNKNOWN, MATCH_NONE, MATCH_OUTER, MATCH_INNERMOST };

struct uses {
    const struct sonde_profile *profile;
    const char *function;
    unsigned char *matches; /* enum match of each location */
    struct hash_index index;
    struct use *items;
    uint32_t count, capacity;
};

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static struct use *find_use(struct uses *uses, const char *service) {
    uint32_t hash = hash_index_data(&uses->index, service, strlen(service)), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&uses->index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(uses->items[number].service, service) == 0)
            return &uses->items[number];
    if (!array_room(&uses->items, &uses->capacity, uses->count, 1))
        return NULL;
    uses->items[uses->count] = (struct use){.service = service};
    return hash_index_add(&uses->index, hash, uses->count) ? &uses->items[uses->count++] : NULL;
}

/* Locations are few compared with samples, so each is looked at once. */
static enum match match(struct uses *uses, uint32_t id) {
    unsigned char *known = &uses->matches[id];
    const struct sonde_location *location = sonde_profile_location(uses->profile, id);
    for (uint32_t i = 0; i < location->line_count && *known == MATCH_UNKNOWN; i++) {
        const struct sonde_function *function =
            sonde_profile_function(uses->profile, location->lines[i].function);
        const char *name = sonde_profile_text(uses->profile, function->name);
        if (sonde_wildcard_matches(uses->function, name))
            *known = i == 0 ? MATCH_INNERMOST : MATCH_OUTER;
    }
    if (*known == MATCH_UNKNOWN)
        *known = MATCH_NONE;
    return (enum match) * known;
}

static sonde_err add_samples(struct uses *uses, const char *only_service) {
    size_t type = sonde_profile_type_count(uses->profile) - 1;
    for (size_t i = 0; i < sonde_profile_sample_count(uses->profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(uses->profile, i);
        const char *service =
            only_service[0] ? only_service : sonde_sample_label(uses->profile, &sample, "service");
        struct use *use = find_use(uses, service);
        bool is_on_stack = false;
        if (!use)
            return SONDE_OUT_OF_MEMORY;
        for (uint32_t j = 0; j < sample.location_count && !is_on_stack; j++)
            is_on_stack = match(uses, sample.locations[j]) != MATCH_NONE;
        int64_t value = sample.values[type];
        use->service_total = add(use->service_total, value);
        if (is_on_stack)
            use->total = add(use->total, value);
        if (is_on_stack && match(uses, sample.locations[0]) == MATCH_INNERMOST)
            use->self = add(use->self, value);
    }
    return SONDE_OK;
}

/* ---- The answer ---- */

static int by_total(const void *left, const void *right) {
    const struct use *a = left, *b = right;
    if (a->total != b->total)
        return a->total < b->total ? 1 : -1;
    return strcmp(a->service, b->service);
}

static sonde_err add_answer(struct history_query *query, const struct uses *uses,
                            Sonde__V1__Completeness *completeness, uint32_t limit) {
    Sonde__V1__QueryFunctionResponse response = SONDE__V1__QUERY_FUNCTION_RESPONSE__INIT;
    uint32_t found = 0;
    while (found < uses->count && uses->items[found].total > 0)
        found++;
    uint32_t shown = found < limit ? found : limit;
    Sonde__V1__FunctionUse *all = sonde_arena_alloc(&query->arena, (shown + 1) * sizeof *all);
    response.services = sonde_arena_alloc(&query->arena, (shown + 1) * sizeof(void *));
    if (!all || !response.services)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < shown; i++) {
        sonde__v1__function_use__init(&all[i]);
        all[i].service = (char *)uses->items[i].service;
        all[i].self = uses->items[i].self;
        all[i].total = uses->items[i].total;
        all[i].service_total = uses->items[i].service_total;
        response.services[response.n_services++] = &all[i];
    }
    response.unit =
        (char *)sonde_profile_type(uses->profile, sonde_profile_type_count(uses->profile) - 1).unit;
    response.omitted = found - shown;
    response.completeness = completeness;
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err answer(struct history_query *query, const struct history_selection *selection,
                        const struct store_profile *profile, uint32_t limit,
                        struct sonde_diag *diag) {
    const Sonde__V1__QueryFunctionRequest *request = (const void *)query->request;
    const char *service = selection->query.service ? selection->query.service : "";
    struct uses uses = {.profile = profile->profile, .function = request->function};
    uses.matches = calloc(sonde_profile_location_count(profile->profile) + 1, 1);
    hash_index_init(&uses.index);
    Sonde__V1__Completeness completeness;
    sonde_err err = history_completeness(query, selection, &profile->merge, &completeness, diag);
    completeness.unknown_stacks = profile->unknown_stacks;
    if (!err)
        err = uses.matches ? add_samples(&uses, service) : SONDE_OUT_OF_MEMORY;
    if (!err && uses.count)
        qsort(uses.items, uses.count, sizeof *uses.items, by_total);
    if (!err)
        err = add_answer(query, &uses, &completeness, limit);
    hash_index_finish(&uses.index);
    free(uses.matches);
    free(uses.items);
    return err;
}

static sonde_err check(const Sonde__V1__QueryFunctionRequest *request, struct sonde_diag *diag) {
    if (!request->function[0] || strlen(request->function) > MAX_FUNCTION)
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "function: a name of 1 to %d bytes is needed; * stands for any characters",
            MAX_FUNCTION);
    if (request->selection && request->selection->host_totals)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "host_totals: the host view has no functions");
    return SONDE_OK;
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QueryFunctionRequest *request = (const void *)query->request;
    struct history_selection selection = {.selector = NULL};
    struct store_profile profile = {.profile = NULL};
    uint32_t limit;
    sonde_err err =
        rpc_number("limit", request->limit, DEFAULT_SERVICES, 1, MAX_SERVICES, &limit, diag);
    if (!err)
        err = check(request, diag);
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

void rpc_query_function(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
