/* SPDX-License-Identifier: Apache-2.0
 *
 *     process ─ note, if frames are missing ─ frames of the process ─ frames of the kernel
 *     root                                                                           leaf
 *
 * Every sample of the file is counted, with or without a stack, so that totals are perf's own. */
#include "service/engine/perf_data/parts.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <unistd.h>

sonde_err recorded_counts_init(struct recorded_counts *counts) {
    *counts = (struct recorded_counts){.limit = RECORDED_MAX_ENTRIES,
                                       .stacks = stacks_create(0, geteuid())};
    hash_index_init(&counts->index);
    counts->other =
        counts->stacks ? stacks_add_note(counts->stacks, 0, STACK_NOTE_TRUNCATED) : STACKS_FULL;
    return counts->other != STACKS_FULL ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void recorded_counts_finish(struct recorded_counts *counts) {
    stacks_release(counts->stacks);
    free(counts->items);
    hash_index_finish(&counts->index);
    *counts = (struct recorded_counts){0};
}

/* ---- frames ---- */

struct finding {
    struct recorded_code *code;
    const struct recorded_process *process;
};

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    const struct finding *finding = context;
    struct mapping *mapping = generation_find(finding->process->map->generation, pc);
    if (!mapping)
        return UNWIND_NOT_CODE;
    recorded_code_open(finding->code, mapping, finding->process->name);
    *range = (struct unwind_range){.start = mapping->start, .end = mapping->end};
    if (mapping->view) {
        range->image = mapping->view->image;
        range->bias = mapping->bias;
    }
    return UNWIND_FOUND;
}

struct walked {
    uint64_t pcs[UNWIND_COPY_FRAMES];
    uint32_t count;
    enum stack_end end;
};

/* The kernel starts a program with a frame pointer of 0, in ld.so's _start, which has no unwind
 * information. */
static bool is_first_frame(const struct perf_file_sample *sample,
                           const struct unwind_copy_walk *walk) {
    return walk->end == UNWIND_COPY_NO_TABLE && walk->count == 1 &&
           sample->registers.value[UNWIND_REG_FP] == 0;
}

static void walk_copy(struct recorded_code *code, const struct recorded_process *process,
                      const struct perf_file_sample *sample, struct walked *walked) {
    static const enum stack_end ends[UNWIND_COPY_ENDS] = {
        [UNWIND_COPY_ROOT] = STACK_END_ROOT,        [UNWIND_COPY_DEPTH] = STACK_END_DEPTH,
        [UNWIND_COPY_NO_CODE] = STACK_END_NO_TABLE, [UNWIND_COPY_NO_TABLE] = STACK_END_NO_TABLE,
        [UNWIND_COPY_RULE] = STACK_END_RULE,        [UNWIND_COPY_BAD_STACK] = STACK_END_BAD_STACK,
        [UNWIND_COPY_SHORT] = STACK_END_SHORT,      [UNWIND_COPY_WAITS] = STACK_END_NO_TABLE,
    };
    struct finding finding = {code, process};
    struct unwind_code_map codes = {
        .context = &finding, .find = find, .serial = process->map->serial};
    struct unwind_copy copy = {
        .registers = sample->registers, .stack = sample->stack, .stack_bytes = sample->stack_bytes};
    struct unwind_copy_walk walk = {.pcs = walked->pcs, .capacity = UNWIND_COPY_FRAMES - 256};
    unwind_copy_walk(code->walker, &codes, &copy, &walk);
    walked->count = walk.count;
    walked->end = is_first_frame(sample, &walk) ? STACK_END_ROOT : ends[walk.end];
}

/* perf's own chain, or the pc alone. Chains that are made of frame pointers, and single pcs, do not
 * say whether they are complete. */
static void take_chain(const struct perf_file_sample *sample, struct walked *walked) {
    uint32_t room = UNWIND_COPY_FRAMES - 256;
    walked->count = sample->user_count < room ? sample->user_count : room;
    walked->end = sample->user_count < room ? STACK_END_ROOT : STACK_END_DEPTH;
    for (uint32_t i = 0; i < walked->count; i++)
        walked->pcs[i] = sample->user[i] & ~RING_PC_EXACT;
    if (walked->count > 0 || sample->kernel_count > 0 || sample->is_in_kernel)
        return;
    walked->pcs[0] = sample->ip & ~RING_PC_EXACT;
    walked->count = sample->ip != 0;
}

static void walk(struct recorded_code *code, const struct recorded_process *process,
                 const struct perf_file_sample *sample, struct walked *walked) {
    bool has_map = process && process->map;
    bool has_copy = sample->has_registers && !sample->is_32bit && sample->stack;
    walked->count = 0;
    walked->end = STACK_END_ROOT;
    if (has_copy && has_map)
        walk_copy(code, process, sample, walked);
    else if (has_copy)
        walked->end = STACK_END_GONE;
    else
        take_chain(sample, walked);
}

static uint32_t add_user_frames(struct recorded_counts *counts, struct recorded_code *code,
                                const struct recorded_process *process, const struct walked *walked,
                                uint32_t parent) {
    for (uint32_t i = walked->count; i-- > 0 && parent != STACKS_FULL;) {
        uint64_t pc = walked->pcs[i], inside = i == 0 || pc == 0 ? pc : pc - 1;
        struct mapping *mapping =
            process && process->map ? generation_find(process->map->generation, inside) : NULL;
        if (mapping)
            recorded_code_open(code, mapping, process->name);
        uint32_t number = mapping ? stacks_add_mapping(counts->stacks, mapping) : 0;
        parent = stacks_add_frame(counts->stacks, parent, number == STACKS_FULL ? 0 : number,
                                  i == 0 ? pc | RING_PC_EXACT : pc);
    }
    return parent;
}

/* Bit 63 of a kernel's pc is dropped: here it marks exact pcs (mapping_create_kernel). */
static uint32_t add_kernel_frames(struct recorded_counts *counts, struct recorded_code *code,
                                  const struct perf_file_sample *sample, uint32_t parent) {
    const uint64_t *pcs = sample->kernel_count ? sample->kernel : &sample->ip;
    uint32_t count = sample->kernel_count ? sample->kernel_count : sample->is_in_kernel;
    uint32_t number = count ? stacks_add_mapping(counts->stacks, code->kernel) : 0;
    count = count < 254 ? count : 254; /* with the others, at most what a profile's sample holds */
    for (uint32_t i = count; i-- > 0 && parent != STACKS_FULL;) {
        uint64_t pc = pcs[i] & ~RING_PC_EXACT;
        parent = stacks_add_frame(counts->stacks, parent, number == STACKS_FULL ? 0 : number,
                                  i == 0 ? pc | RING_PC_EXACT : pc);
    }
    return parent;
}

static uint32_t add_stack(struct recorded_counts *counts, struct recorded_code *code,
                          const struct recorded_process *process,
                          const struct perf_file_sample *sample) {
    struct walked walked;
    walk(code, process, sample, &walked);
    counts->ends[walked.end]++;
    uint32_t parent = stacks_add_process(counts->stacks, recorded_process_name(process));
    int note = stack_end_note(walked.end);
    if (sample->has_registers && sample->is_32bit)
        note = STACK_NOTE_32BIT;
    bool is_empty = walked.count == 0 && sample->kernel_count == 0 && !sample->is_in_kernel;
    if (note < 0 && is_empty)
        note = STACK_NOTE_EMPTY;
    if (note >= 0 && parent != STACKS_FULL)
        parent = stacks_add_frame(counts->stacks, parent, STACKS_NOTE, (uint64_t)note);
    if (parent != STACKS_FULL)
        parent = add_user_frames(counts, code, process, &walked, parent);
    return parent != STACKS_FULL ? add_kernel_frames(counts, code, sample, parent) : parent;
}

/* ---- counting ---- */

static struct recorded_count *find_count(const struct recorded_counts *counts, uint32_t hash,
                                         const struct recorded_count *wanted) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&counts->index, &probe)) != HASH_INDEX_NONE) {
        struct recorded_count *count = &counts->items[number];
        if (count->stack == wanted->stack && count->thread == wanted->thread &&
            count->event == wanted->event)
            return count;
    }
    return NULL;
}

static uint32_t hash_of(const struct recorded_counts *counts, const struct recorded_count *count) {
    uint64_t place = (uint64_t)count->stack << 32 | count->thread;
    return hash_index_words(&counts->index, place, count->event);
}

static struct recorded_count *find_or_add(struct recorded_counts *counts,
                                          struct recorded_count wanted) {
    struct recorded_count *found = find_count(counts, hash_of(counts, &wanted), &wanted);
    if (!found && counts->count >= counts->limit) {
        wanted.stack = counts->other;
        wanted.thread = 0;
        found = find_count(counts, hash_of(counts, &wanted), &wanted);
    }
    if (found)
        return found;
    if (!array_room(&counts->items, &counts->capacity, counts->count, 1) ||
        !hash_index_add(&counts->index, hash_of(counts, &wanted), counts->count))
        return NULL;
    counts->items[counts->count] = wanted;
    return &counts->items[counts->count++];
}

bool recorded_counts_add(struct recorded_counts *counts, struct recorded_code *code,
                         struct recorded_processes *processes,
                         const struct perf_file_record *record) {
    const struct recorded_process *process = recorded_processes_sampled(processes, record->pid);
    struct recorded_count wanted = {.event = record->sample.event};
    uint32_t tid = record->tid > 0 ? (uint32_t)record->tid : 0;
    wanted.stack = add_stack(counts, code, process, &record->sample);
    wanted.thread = stacks_add_thread(counts->stacks, record->pid > 0 ? (uint32_t)record->pid : 0,
                                      tid, recorded_thread_name(processes, record->tid, process));
    if (wanted.thread == STACKS_FULL)
        wanted.thread = 0;
    if (wanted.stack == STACKS_FULL)
        wanted.stack = counts->other;
    struct recorded_count *count = find_or_add(counts, wanted);
    if (!count)
        return false;
    counts->other_samples += count->stack == counts->other;
    count->samples++;
    count->amount += record->sample.period;
    return true;
}
