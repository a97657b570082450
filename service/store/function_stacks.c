/* SPDX-License-Identifier: Apache-2.0
 *
 *     merge -> distinct stacks -> their frames -> distinct frames -> names -> stacks that match */
#include "service/store/function_stacks.h"

#include "service/store/id_set.h"

#include "api/text/wildcard.h"

#include <stdlib.h>

struct search {
    struct store *store;
    const struct store_query *query;
    const char *pattern;
    struct sonde_diag *diag;
    struct sonde_arena arena;     /* of what is fetched */
    struct id_set stacks, frames; /* groups of stacks: services */
    const struct store_stack **found;
    size_t found_count;
    bool *is_match; /* of frames, by number */
};

static sonde_err collect_stacks(struct search *search, const struct store_merge *merge) {
    uint32_t number;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < merge->row_count && !err; i++)
        err = id_set_add(&search->stacks, merge->rows[i].service, merge->rows[i].stack, &number);
    search->found = calloc(search->stacks.count + 1, sizeof(struct store_stack *));
    return err ? err : search->found ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static sonde_err fetch_service(struct search *search, const char *name, const uint64_t *ids,
                               size_t count) {
    struct store_stack *stacks;
    size_t found = 0;
    uint32_t number;
    sonde_err err = store_stop_check(search->query->stop, search->diag);
    if (!err && count)
        err = search->store->ops->stacks(search->store, name, ids, count, search->query->stop,
                                         &search->arena, &stacks, &found, search->diag);
    for (size_t i = 0; i < found && !err; i++) {
        search->found[search->found_count++] = &stacks[i];
        for (uint32_t k = 0; k < stacks[i].frame_count && !err; k++)
            err = id_set_add(&search->frames, 0, stacks[i].frames[k], &number);
    }
    return err;
}

static sonde_err fetch_stacks(struct search *search, const struct store_merge *merge) {
    const struct id_set *set = &search->stacks;
    uint64_t *ids = calloc(set->count + 1, sizeof *ids);
    sonde_err err = ids ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t service = 0; service < merge->service_count && !err; service++) {
        size_t count = 0;
        for (uint32_t i = 0; i < set->count; i++)
            if (set->groups[i] == service)
                ids[count++] = set->ids[i];
        err = fetch_service(search, merge->services[service], ids, count);
    }
    free(ids);
    return err;
}

static bool matches(const struct search *search, const struct store_frame *frame) {
    for (uint32_t i = 0; i < frame->line_count; i++)
        if (sonde_wildcard_matches(search->pattern, frame->lines[i].function))
            return true;
    return false;
}

static sonde_err match_frames(struct search *search) {
    struct store_frame *frames;
    size_t found = 0;
    search->is_match = calloc(search->frames.count + 1, sizeof *search->is_match);
    sonde_err err = search->is_match ? store_stop_check(search->query->stop, search->diag)
                                     : SONDE_OUT_OF_MEMORY;
    if (!err && search->frames.count)
        err = search->store->ops->frames(search->store, search->frames.ids, search->frames.count,
                                         search->query->stop, &search->arena, &frames, &found,
                                         search->diag);
    for (size_t i = 0; i < found && !err; i++) {
        uint32_t number = id_set_find(&search->frames, 0, frames[i].id);
        if (number != HASH_INDEX_NONE)
            search->is_match[number] = matches(search, &frames[i]);
    }
    return err;
}

static bool has_match(const struct search *search, const struct store_stack *stack) {
    for (uint32_t i = 0; i < stack->frame_count; i++)
        if (search->is_match[id_set_find(&search->frames, 0, stack->frames[i])])
            return true;
    return false;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Services may share stacks, whose ids are hashes of their frames. */
static sonde_err choose(const struct search *search, struct sonde_arena *arena,
                        const uint64_t **stacks, size_t *count) {
    uint64_t *ids = sonde_arena_alloc(arena, (search->found_count + 1) * sizeof *ids);
    size_t chosen = 0, kept = 0;
    if (!ids)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < search->found_count; i++)
        if (has_match(search, search->found[i]))
            ids[chosen++] = search->found[i]->id;
    qsort(ids, chosen, sizeof *ids, compare);
    for (size_t i = 0; i < chosen; i++)
        if (kept == 0 || ids[i] != ids[kept - 1])
            ids[kept++] = ids[i];
    *stacks = ids;
    *count = kept;
    return SONDE_OK;
}

sonde_err store_function_stacks(struct store *store, const struct store_query *query,
                                const char *pattern, struct sonde_arena *arena,
                                const uint64_t **stacks, size_t *count, struct sonde_diag *diag) {
    struct search search = {.store = store, .query = query, .pattern = pattern, .diag = diag};
    struct store_merge merge;
    id_set_init(&search.stacks);
    id_set_init(&search.frames);
    sonde_err err = store->ops->merge(store, query, &search.arena, &merge, diag);
    if (!err)
        err = collect_stacks(&search, &merge);
    if (!err)
        err = fetch_stacks(&search, &merge);
    if (!err)
        err = match_frames(&search);
    if (!err)
        err = choose(&search, arena, stacks, count);
    id_set_finish(&search.stacks);
    id_set_finish(&search.frames);
    sonde_arena_finish(&search.arena);
    free(search.found);
    free(search.is_match);
    return err;
}
