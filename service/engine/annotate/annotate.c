/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/annotate/annotate.h"

#include "service/engine/annotate/places.h"
#include "service/symbol/code/code.h"
#include "service/symbol/files/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct job {
    struct symbol_store *store;
    struct symbol_module *module;
    const struct annotate_request *request;
    uint32_t wait_ms; /* that are left for the line table */
    struct annotate_answer *answer;
    struct places places;
    struct symbol_code code;
};

/* ---- addresses ---- */

static uint64_t to_vaddr(const struct job *job, uint64_t address) {
    const struct annotate_request *request = job->request;
    for (size_t i = 0; i < request->mapping_count; i++) {
        const struct engine_symbol_mapping *at = &request->mappings[i];
        struct symbol_mapping mapping = {.start = at->start, .end = at->end, .offset = at->offset};
        uint64_t bias;
        if (address >= at->start && address < at->end)
            return symbol_module_bias_of(job->module, &mapping, &bias) ? address - bias : 0;
    }
    return request->mapping_count == 0 ? address : 0;
}

static uint32_t add_function(struct job *job, const struct symbol_code_range *range) {
    struct annotate_answer *answer = job->answer;
    for (uint32_t i = answer->function_count; i > 0; i--) { /* usually the last one */
        struct annotate_function *known = &answer->functions[i - 1];
        if (known->start != range->start)
            continue;
        known->end = range->end > known->end ? range->end : known->end;
        return i - 1;
    }
    if (answer->function_count == ANNOTATE_FUNCTIONS)
        return ANNOTATE_NONE;
    answer->functions[answer->function_count] =
        (struct annotate_function){.start = range->start, .end = range->end};
    return answer->function_count++;
}

static void find_functions(struct job *job) {
    struct annotate_answer *answer = job->answer;
    struct symbol_code_range range = {0, 0};
    for (size_t i = 0; i < answer->address_count; i++) {
        struct annotate_address *address = &answer->addresses[i];
        address->vaddr = to_vaddr(job, job->request->addresses[i]);
        address->function = address->place = ANNOTATE_NONE;
        bool same = address->vaddr >= range.start && address->vaddr < range.end;
        if (address->vaddr && (same || symbol_code_function(job->module, address->vaddr, &range)))
            address->function = add_function(job, &range);
    }
}

/* ---- functions ---- */

static sonde_err name_functions(struct job *job) {
    struct annotate_answer *answer = job->answer;
    struct symbol_query *queries = calloc(answer->function_count + 1, sizeof *queries);
    struct symbol_answer *names = calloc(answer->function_count + 1, sizeof *names);
    sonde_err err = queries && names ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < answer->function_count && !err; i++)
        queries[i] =
            (struct symbol_query){.module = job->module, .vaddr = answer->functions[i].start};
    if (!err)
        err = symbol_resolve_wait(job->store, queries, answer->function_count, job->wait_ms,
                                  &answer->arena, names);
    job->wait_ms = 0;
    for (uint32_t i = 0; i < answer->function_count && !err; i++) {
        struct annotate_function *function = &answer->functions[i];
        struct symbol_frame unnamed;
        const struct symbol_frame *frames;
        uint32_t count = symbol_answer_frames(&names[i], &unnamed, &frames);
        const struct symbol_frame *outermost = count > 0 ? &frames[count - 1] : NULL;
        function->name = outermost ? outermost->name : "";
        function->system_name = outermost ? outermost->system_name : "";
        function->file = outermost ? outermost->file : "";
        function->line = outermost ? outermost->line : 0;
        function->is_part = strstr(function->system_name, ".cold") != NULL;
    }
    free(queries);
    free(names);
    return err;
}

static bool is_chosen(const struct job *job, uint32_t function) {
    return !job->request->function ||
           job->answer->functions[function].start == job->request->function;
}

/* Also adds the asked one, which need not have samples. */
static sonde_err choose(struct job *job, bool *has_choice, struct sonde_diag *diag) {
    struct annotate_answer *answer = job->answer;
    struct symbol_code_range range;
    uint64_t asked = job->request->function;
    if (asked && (!symbol_code_function(job->module, asked, &range) || range.start != asked))
        return sonde_fail(diag, SONDE_NOT_FOUND, "no function starts at 0x%llx in %.100s",
                          (unsigned long long)asked, answer->path);
    if (asked && add_function(job, &range) == ANNOTATE_NONE)
        return sonde_fail(diag, SONDE_TOO_LARGE, "at most %u functions", ANNOTATE_FUNCTIONS);
    sonde_err err = name_functions(job);
    uint32_t whole = 0;
    for (uint32_t i = 0; i < answer->function_count; i++)
        whole += !answer->functions[i].is_part;
    *has_choice = answer->function_count > 0 && (asked || whole <= 1);
    return err;
}

/* ---- code ---- */

static int by_vaddr(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static int by_start(const void *left, const void *right) {
    return by_vaddr(&((const struct symbol_code_range *)left)->start,
                    &((const struct symbol_code_range *)right)->start);
}

/* If there is no code, the answer has the reason, and the lines of the addresses. */
static sonde_err read_code(struct job *job) {
    const struct annotate_answer *answer = job->answer;
    struct symbol_code_range ranges[SYMBOL_CODE_RANGES];
    uint64_t *wanted = calloc(answer->address_count + 1, sizeof *wanted);
    struct symbol_code_request request = {.ranges = ranges, .wanted = wanted};
    struct sonde_diag diag = {0};
    if (!wanted)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < answer->function_count; i++)
        if (is_chosen(job, i) && request.range_count < SYMBOL_CODE_RANGES)
            ranges[request.range_count++] =
                (struct symbol_code_range){answer->functions[i].start, answer->functions[i].end};
    for (size_t i = 0; i < answer->address_count; i++)
        if (answer->addresses[i].function != ANNOTATE_NONE &&
            is_chosen(job, answer->addresses[i].function))
            wanted[request.wanted_count++] = answer->addresses[i].vaddr;
    qsort(ranges, request.range_count, sizeof *ranges, by_start);
    qsort(wanted, request.wanted_count, sizeof *wanted, by_vaddr);
    sonde_err err = symbol_code_read(job->module, &request, &job->code, &diag);
    if (err)
        snprintf(job->answer->without_code, sizeof job->answer->without_code, "%s",
                 sonde_diag_text(&diag, err));
    free(wanted);
    return err == SONDE_OUT_OF_MEMORY ? err : SONDE_OK;
}

static bool leaves(const struct job *job, const struct symbol_instruction *from) {
    bool inside = false;
    for (uint32_t i = 0; i < job->answer->function_count; i++)
        inside |= is_chosen(job, i) && from->target >= job->answer->functions[i].start &&
                  from->target < job->answer->functions[i].end;
    return from->target != 0 && !inside;
}

/* The queries: the instructions, then the targets of those that leave the function, then the
 * addresses. */
static void fill_queries(struct job *job, struct symbol_query *queries) {
    const struct annotate_answer *answer = job->answer;
    uint32_t count = job->code.count;
    for (uint32_t i = 0; i < count; i++) {
        const struct symbol_instruction *from = &job->code.instructions[i];
        queries[i] = (struct symbol_query){.module = job->module, .vaddr = from->vaddr};
        queries[count + i] = (struct symbol_query){.module = leaves(job, from) ? job->module : NULL,
                                                   .vaddr = from->target};
    }
    for (size_t i = 0; i < answer->address_count; i++) {
        uint32_t function = answer->addresses[i].function;
        bool wanted = function != ANNOTATE_NONE && is_chosen(job, function);
        queries[2 * count + i] = (struct symbol_query){.module = wanted ? job->module : NULL,
                                                       .vaddr = answer->addresses[i].vaddr};
    }
}

static sonde_err set_instruction(struct job *job, uint32_t i, const struct symbol_answer *place,
                                 const struct symbol_answer *target) {
    const struct symbol_instruction *from = &job->code.instructions[i];
    const char *text = job->code.texts + from->text;
    struct annotate_instruction *to = &job->answer->instructions[i];
    struct symbol_frame unnamed;
    const struct symbol_frame *frames;
    uint32_t count = symbol_answer_frames(target, &unnamed, &frames);
    *to = (struct annotate_instruction){
        .vaddr = from->vaddr,
        .target = from->target,
        .text = sonde_arena_dup(&job->answer->arena, text, strlen(text)),
        .target_name = count > 0 ? frames[count - 1].name : "",
        .target_offset = count > 0 ? frames[count - 1].offset : 0,
        .size = from->size,
        .kind = from->kind,
        .is_after_gap = from->is_after_gap,
    };
    return to->text ? places_add(&job->places, place, &to->place) : SONDE_OUT_OF_MEMORY;
}

static sonde_err set_places(struct job *job, const struct symbol_answer *answers) {
    struct annotate_answer *answer = job->answer;
    uint32_t count = job->code.count;
    sonde_err err = SONDE_OK;
    answer->instructions =
        sonde_arena_alloc(&answer->arena, (count + 1) * sizeof *answer->instructions);
    if (!answer->instructions)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count && !err; i++)
        err = set_instruction(job, i, &answers[i], &answers[count + i]);
    answer->instruction_count = err ? 0 : count;
    answer->is_cut = job->code.is_cut;
    for (size_t i = 0; i < answer->address_count && !err; i++)
        if (answers[2 * count + i].frame_count > 0)
            err = places_add(&job->places, &answers[2 * count + i], &answer->addresses[i].place);
    return err;
}

static sonde_err resolve_all(struct job *job) {
    size_t total = 2 * (size_t)job->code.count + job->answer->address_count;
    struct symbol_query *queries = calloc(total + 1, sizeof *queries);
    struct symbol_answer *answers = calloc(total + 1, sizeof *answers);
    sonde_err err = queries && answers ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err) {
        fill_queries(job, queries);
        err = symbol_resolve_wait(job->store, queries, total, job->wait_ms, &job->answer->arena,
                                  answers);
    }
    if (!err)
        err = set_places(job, answers);
    free(queries);
    free(answers);
    return err;
}

/* ---- the answer ---- */

static sonde_err describe(struct job *job) {
    struct annotate_answer *answer = job->answer;
    const char *path = symbol_module_path(job->module);
    struct stat file;
    if (fstat(symbol_module_fd(job->module), &file) == 0 && S_ISREG(file.st_mode))
        answer->modified_unix_ns = (int64_t)file.st_mtim.tv_sec * 1000000000 + file.st_mtim.tv_nsec;
    answer->path = sonde_arena_dup(&answer->arena, path, strlen(path));
    path = symbol_module_build_id(job->module);
    answer->build_id = sonde_arena_dup(&answer->arena, path, strlen(path));
    answer->functions =
        sonde_arena_alloc(&answer->arena, ANNOTATE_FUNCTIONS * sizeof *answer->functions);
    answer->address_count = job->request->count;
    answer->addresses =
        sonde_arena_alloc(&answer->arena, (answer->address_count + 1) * sizeof *answer->addresses);
    return answer->path && answer->build_id && answer->functions && answer->addresses
               ? SONDE_OK
               : SONDE_OUT_OF_MEMORY;
}

sonde_err annotate_module(struct symbol_store *store, struct symbol_module *module,
                          const struct annotate_request *request, struct annotate_answer *answer,
                          struct sonde_diag *diag) {
    struct job job = {.store = store,
                      .module = module,
                      .request = request,
                      .wait_ms = request->wait_ms,
                      .answer = answer};
    bool has_choice = false;
    *answer = (struct annotate_answer){.without_lines = ""};
    if (request->count > SYMBOL_CODE_WANTED)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%zu addresses: at most %u at a time",
                          request->count, SYMBOL_CODE_WANTED);
    places_init(&job.places, answer);
    sonde_err err = describe(&job);
    if (!err)
        find_functions(&job);
    if (!err)
        err = choose(&job, &has_choice, diag);
    if (!err && has_choice)
        err = read_code(&job);
    if (!err && has_choice)
        err = resolve_all(&job);
    if (!err)
        answer->without_lines = symbol_module_shortfall(module);
    symbol_code_finish(&job.code);
    places_finish(&job.places);
    return err;
}

void annotate_finish(struct annotate_answer *answer) {
    free(answer->places);
    sonde_arena_finish(&answer->arena);
    *answer = (struct annotate_answer){0};
}
