/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the frames of all stacks: each pc once, in one batch. */
#include "service/engine/backtraces/backtraces_request.h"
#include "service/engine/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INLINED 64u

struct naming {
    struct backtraces *all;
    uint64_t *pcs; /* the distinct ones, ascending */
    uint32_t count;
    struct symbol_query *queries; /* one per pc; module NULL = none */
    struct symbol_answer *answers;
};

static bool is_note(uint64_t pc) {
    return pc & (BACKTRACES_NOTE | BACKTRACES_GAP);
}

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The first pc of a stack is exact, the others are return addresses; the same number may be both in
 * different stacks. */
static uint64_t pc_at(const struct backtraces_stack *stack, uint32_t at) {
    return stack->pcs[at] | (at == 0 && !is_note(stack->pcs[0]) ? UNWIND_REMOTE_EXACT : 0);
}

static bool collect(struct naming *naming) {
    const struct backtraces *all = naming->all;
    size_t total = 0;
    for (uint32_t i = 0; i < all->stack_count; i++)
        total += all->stacks[i].count;
    naming->pcs = malloc((total + 1) * sizeof *naming->pcs);
    if (!naming->pcs)
        return false;
    size_t count = 0, kept = 0;
    for (uint32_t i = 0; i < all->stack_count; i++)
        for (uint32_t at = 0; at < all->stacks[i].count; at++)
            naming->pcs[count++] = pc_at(&all->stacks[i], at);
    qsort(naming->pcs, count, sizeof *naming->pcs, by_value);
    for (size_t i = 0; i < count; i++)
        if (!is_note(naming->pcs[i]) && (i == 0 || naming->pcs[i] != naming->pcs[i - 1]))
            naming->pcs[kept++] = naming->pcs[i];
    naming->count = (uint32_t)kept;
    return true;
}

static uint64_t address_of(uint64_t pc) {
    return pc & ~UNWIND_REMOTE_EXACT;
}

static uint64_t inside_of(uint64_t pc) {
    return address_of(pc) - !(pc & UNWIND_REMOTE_EXACT);
}

static sonde_err resolve(struct naming *naming) {
    struct backtraces *all = naming->all;
    naming->queries = calloc(naming->count + 1, sizeof *naming->queries);
    naming->answers = calloc(naming->count + 1, sizeof *naming->answers);
    if (!naming->queries || !naming->answers)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < naming->count; i++) {
        struct code_region *region = process_code_at(&all->code, inside_of(naming->pcs[i]));
        struct symbol_module *module = region ? mapping_module(region->mapping) : NULL;
        if (module && region->mapping->has_bias)
            naming->queries[i] =
                (struct symbol_query){.module = module,
                                      .vaddr = inside_of(naming->pcs[i]) - region->mapping->bias,
                                      .module_name = mapping_program_name(region->mapping)};
    }
    return symbol_resolve(all->engine->symbols, naming->queries, naming->count, &all->arena,
                          naming->answers);
}

static const struct symbol_answer *answer_of(const struct naming *naming, uint64_t pc) {
    const uint64_t *found = bsearch(&pc, naming->pcs, naming->count, sizeof *naming->pcs, by_value);
    return found ? &naming->answers[found - naming->pcs] : NULL;
}

static struct engine_thread_frame note_frame(struct backtraces *all, uint64_t pc) {
    struct engine_thread_frame frame = {
        .name = "", .file = "", .module = "", .kind = SONDE_FRAME_NOTE};
    if (pc & BACKTRACES_NOTE) {
        frame.name = stack_note_text(pc & 0xffff);
    } else {
        char text[64];
        int len = snprintf(text, sizeof text, "[%u frames left out]", (unsigned)pc);
        frame.name = sonde_arena_dup(&all->arena, text, (size_t)len);
        frame.name = frame.name ? frame.name : stack_note_text(STACK_NOTE_TRUNCATED);
    }
    return frame;
}

/* Writes the frames of one pc, innermost first, and returns their number. A function without a name
 * has that of its place, as in profiles. */
static uint32_t frames_of(struct naming *naming, uint64_t pc, struct engine_thread_frame *frames) {
    const struct symbol_answer *answer = answer_of(naming, pc);
    struct code_region *region = process_code_at(&naming->all->code, inside_of(pc));
    const struct symbol_module *module = region ? mapping_module(region->mapping) : NULL;
    const char *program = region ? mapping_program_name(region->mapping) : NULL;
    struct engine_thread_frame frame = {
        .name = "",
        .file = "",
        .module = program  ? program
                  : module ? symbol_module_base_name(module)
                           : "",
        .address = address_of(pc),
        .kind = region && !module && region->mapping->inode == 0 ? SONDE_FRAME_JIT
                                                                 : report_kind(module),
    };
    struct symbol_frame unnamed;
    const struct symbol_frame *found = NULL;
    uint32_t count = answer ? symbol_answer_frames(answer, &unnamed, &found) : 0;
    count = count < MAX_INLINED ? count : MAX_INLINED;
    frames[0] = frame;
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = frame;
        frames[i].name = found[i].name;
        frames[i].file = found[i].file;
        frames[i].line = found[i].line;
        frames[i].is_inlined = i + 1 < count;
    }
    return count ? count : 1;
}

static sonde_err name_stack(struct naming *naming, const struct backtraces_stack *from,
                            struct engine_thread_stack *stack) {
    struct backtraces *all = naming->all;
    struct engine_thread_frame frames[MAX_INLINED];
    struct sonde_buf buf = {0};
    for (uint32_t i = 0; i < from->count; i++) {
        uint32_t count = 1;
        if (is_note(from->pcs[i]))
            frames[0] = note_frame(all, from->pcs[i]);
        else
            count = frames_of(naming, pc_at(from, i), frames);
        sonde_buf_append(&buf, frames, count * sizeof *frames);
        stack->count += count;
    }
    stack->threads = from->threads;
    stack->frames = (const void *)sonde_arena_dup(&all->arena, buf.data ? buf.data : "", buf.len);
    sonde_err err = buf.failed || !stack->frames ? SONDE_OUT_OF_MEMORY : SONDE_OK;
    sonde_buf_finish(&buf);
    return err;
}

sonde_err backtraces_name(struct backtraces *all, struct engine_backtraces *answer) {
    struct naming naming = {.all = all};
    struct engine_thread_stack *stacks =
        sonde_arena_alloc(&all->arena, (all->stack_count + 1) * sizeof *stacks);
    sonde_err err = stacks && collect(&naming) ? resolve(&naming) : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < all->stack_count && !err; i++)
        err = name_stack(&naming, &all->stacks[i], &stacks[i]);
    answer->stacks = stacks;
    answer->stack_count = all->stack_count;
    free(naming.pcs);
    free(naming.queries);
    free(naming.answers);
    return err;
}
