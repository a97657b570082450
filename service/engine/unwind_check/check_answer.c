/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the results up, and describes the places where walks part. */
#include "service/engine/unwind_check/check_run.h"
#include "service/engine/unwind_check/check_text.h"

#include "service/unwind/table/table_lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 4096u /* pcs with a difference; those beyond are only counted */

/* --- places --- */

struct place {
    uint64_t pc, key; /* key: what was looked up */
    uint64_t stacks;
    uint32_t first; /* the first stack */
};

static const uint64_t *pcs_of(const struct check_run *run, uint32_t number) {
    return (const uint64_t *)(run->bytes.data + run->stacks[number].stack.pcs_at);
}

static void add_place(const struct check_run *run, uint32_t number, struct place *places,
                      uint32_t *count) {
    uint32_t equal = run->results[number].equal, at = equal ? equal - 1 : 0;
    uint64_t pc = pcs_of(run, number)[at];
    for (uint32_t i = 0; i < *count; i++) {
        if (places[i].pc != pc)
            continue;
        places[i].stacks++;
        return;
    }
    if (*count < PLACES)
        places[(*count)++] = (struct place){pc, pc - (at > 0), 1, number};
}

static int by_stacks(const void *a, const void *b) {
    const struct place *left = a, *right = b;
    if (left->stacks != right->stacks)
        return left->stacks < right->stacks ? 1 : -1;
    return (left->first > right->first) - (left->first < right->first);
}

static const char *dup(struct check_run *run, const char *text) {
    const char *copy = sonde_arena_dup(&run->arena, text, strlen(text));
    return copy ? copy : "";
}

static void name(struct check_run *run, struct engine_unwind_difference *difference,
                 const struct code_region *region, uint64_t key) {
    struct symbol_module *module = region ? mapping_module(region->mapping) : NULL;
    difference->function = difference->module = "";
    if (!module || !region->mapping->has_bias)
        return;
    struct symbol_query query = {.module = module, .vaddr = key - region->mapping->bias};
    struct symbol_answer answer = {0};
    struct symbol_frame unnamed;
    const struct symbol_frame *frames;
    difference->module = dup(run, symbol_module_base_name(module));
    difference->module_offset = difference->pc - region->mapping->bias;
    if (symbol_resolve(run->engine->symbols, &query, 1, &run->arena, &answer) == SONDE_OK &&
        symbol_answer_frames(&answer, &unnamed, &frames) > 0)
        difference->function = dup(run, frames[0].name);
}

static void describe(struct check_run *run, const struct place *place,
                     struct engine_unwind_difference *difference) {
    const struct check_sampled *sampled = &run->stacks[place->first];
    const struct check_result *result = &run->results[place->first];
    const struct code_region *region = process_code_at(&run->code, place->key);
    bool has_ended = result->equal == sampled->stack.count;
    char rule[160];
    check_rule_text(region && region->image
                        ? unwind_table_rule(region->image, place->key - region->mapping->bias)
                        : NULL,
                    rule, sizeof rule);
    *difference = (struct engine_unwind_difference){
        .stacks = place->stacks,
        .pc = place->pc,
        .ours = has_ended ? 0 : pcs_of(run, place->first)[result->equal],
        .other = result->other,
        .our_end = has_ended ? check_end_text(sampled->end) : "",
        .rule = dup(run, rule),
        .row = dup(run, result->row),
    };
    name(run, difference, region, place->key);
}

/* --- the answer --- */

static void add_up(const struct check_run *run, struct engine_unwind_check *answer,
                   struct place *places, uint32_t *place_count) {
    for (uint32_t i = 0; i < run->count; i++) {
        const struct check_result *result = &run->results[i];
        if (!result->is_done)
            continue;
        answer->stacks++;
        answer->frames += run->stacks[i].stack.count;
        answer->equal_frames += result->differs ? result->equal : run->stacks[i].stack.count;
        answer->equal_stacks += !result->differs;
        answer->reached_root += run->stacks[i].end == UNWIND_COPY_ROOT;
        answer->other_reached_root += result->end == CHECK_ROOT;
        if (result->differs)
            add_place(run, i, places, place_count);
    }
}

static const char *note_of(struct check_run *run, const struct engine_unwind_check *answer) {
    char text[256] = "";
    if (!process_identity_is_alive(&run->process))
        snprintf(text, sizeof text, "the process ended during the check");
    else if (run->samples == 0)
        snprintf(text, sizeof text,
                 "no samples: the process used no CPU time; check it for longer, or under load");
    else if (run->others == run->samples)
        snprintf(text, sizeof text, "the process runs 32-bit code, which has no unwind tables");
    else if (run->left_out)
        snprintf(text, sizeof text, "%u further stacks were not compared: ask for more stacks",
                 run->left_out);
    else if (run->lost)
        snprintf(text, sizeof text, "%llu samples were lost: lower the frequency",
                 (unsigned long long)run->lost);
    else if (answer->stacks < run->count)
        snprintf(text, sizeof text, "libunwind did not walk %u stacks",
                 run->count - (uint32_t)answer->stacks);
    return dup(run, text);
}

sonde_err check_answer(struct check_run *run, struct engine_unwind_check *answer) {
    struct place *places = calloc(PLACES, sizeof *places);
    struct engine_unwind_difference *differences =
        sonde_arena_alloc(&run->arena, ENGINE_CHECK_MAX_DIFFERENCES * sizeof *differences);
    uint32_t count = 0;
    if (!places || !differences) {
        free(places);
        return SONDE_OUT_OF_MEMORY;
    }
    answer->samples = run->samples;
    add_up(run, answer, places, &count);
    qsort(places, count, sizeof *places, by_stacks);
    if (count > ENGINE_CHECK_MAX_DIFFERENCES)
        count = ENGINE_CHECK_MAX_DIFFERENCES;
    for (uint32_t i = 0; i < count; i++)
        describe(run, &places[i], &differences[i]);
    answer->differences = differences;
    answer->difference_count = count;
    answer->note = note_of(run, answer);
    free(places);
    return SONDE_OK;
}
