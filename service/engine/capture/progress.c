/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress events with the hottest function so far: names the most sampled addresses of the open
 * window and sums them by function. Cheap enough for twice a second: it names at most a few hundred
 * addresses, and only in modules whose symbol table is loaded. */
#include "service/engine/capture/clock.h"
#include "service/engine/capture/jobs.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LEAVES   65536u
#define NAMED_LEAVES 256u

static int by_place(const void *a, const void *b) {
    const struct leaf *left = a, *right = b;
    if (left->mapping != right->mapping)
        return left->mapping > right->mapping ? 1 : -1;
    return (left->pc > right->pc) - (left->pc < right->pc);
}

static int by_count(const void *a, const void *b) {
    const struct leaf *left = a, *right = b;
    return (left->count < right->count) - (left->count > right->count);
}

/* Merges equal leaves and sorts them, the most sampled first. Returns their number. */
static uint32_t rank_leaves(struct leaf *leaves, uint32_t count) {
    uint32_t merged = 0;
    qsort(leaves, count, sizeof *leaves, by_place);
    for (uint32_t i = 0; i < count; i++) {
        if (merged > 0 && by_place(&leaves[merged - 1], &leaves[i]) == 0)
            leaves[merged - 1].count += leaves[i].count;
        else
            leaves[merged++] = leaves[i];
    }
    qsort(leaves, merged, sizeof *leaves, by_count);
    return merged;
}

static const char *name_of(const struct symbol_answer *answer) {
    const char *place = answer->place ? answer->place : "";
    return answer->frame_count > 0 ? answer->frames[0].name : place;
}

/* Finds the name with the largest sum; quadratic, but there are at most NAMED_LEAVES. */
static void find_hottest(const struct leaf *leaves, const struct symbol_answer *answers,
                         uint32_t count, struct engine_progress *event, uint64_t total) {
    uint64_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        const char *name = name_of(&answers[i]);
        for (uint32_t k = 0; k < count; k++)
            sum += strcmp(name_of(&answers[k]), name) == 0 ? leaves[k].count : 0;
        if (name[0] == 0 || sum <= best)
            continue;
        best = sum;
        event->hottest = name;
    }
    event->hottest_share = total ? (double)best / (double)total : 0;
}

static void perform_progress(struct job *base) {
    struct capture_job *job = container_of(base, struct capture_job, job);
    struct cpu_capture *capture = job->capture;
    struct symbol_query queries[NAMED_LEAVES] = {{0}};
    struct symbol_answer answers[NAMED_LEAVES] = {{0}};
    struct sonde_arena arena = {0};
    const struct leaf *leaves = job->progress.leaves;
    uint32_t count = rank_leaves(job->progress.leaves, job->progress.count);
    count = count < NAMED_LEAVES ? count : NAMED_LEAVES;
    for (uint32_t i = 0; i < count; i++) {
        const struct mapping *mapping = leaves[i].mapping;
        queries[i].vaddr = leaves[i].pc - mapping->bias;
        queries[i].module = mapping->has_bias ? mapping_module(mapping) : NULL;
    }
    job->progress.event.hottest = "";
    if (symbol_resolve(capture->base.engine->symbols, queries, count, &arena, answers) == SONDE_OK)
        find_hottest(leaves, answers, count, &job->progress.event, job->progress.total);
    capture->base.events.on_progress(capture->base.context, &job->progress.event);
    sonde_arena_finish(&arena);
}

/* Collects the leaves in modules whose symbol table is loaded. */
static void collect_leaves(const struct report_part *part, struct capture_job *job) {
    uint32_t stride = part->counts.used / MAX_LEAVES + 1;
    for (uint32_t i = 0; i < part->counts.used && job->progress.count < MAX_LEAVES; i += stride) {
        const struct count_entry *entry = &part->counts.entries[i];
        const struct stack_node *node = stacks_node(part->stacks, entry->key.stack);
        struct mapping *mapping = stacks_mapping(part->stacks, node->mapping);
        job->progress.total += entry->count;
        if (!mapping || !atomic_load_explicit(&mapping->has_names, memory_order_acquire))
            continue;
        job->progress.leaves[job->progress.count++] = (struct leaf){
            .mapping = mapping, .pc = node->pc & ~RING_PC_EXACT, .count = entry->count};
    }
}

/* NULL when out of memory. */
static struct capture_job *create(struct cpu_capture *capture, const struct report_part *part,
                                  uint64_t now_ns) {
    struct capture_job *job = job_create(capture, JOB_PROGRESS, perform_progress);
    if (!job)
        return NULL;
    uint32_t room = part->counts.used < MAX_LEAVES ? part->counts.used + 1 : MAX_LEAVES;
    job->progress.leaves = calloc(room, sizeof *job->progress.leaves);
    job->progress.stacks = stacks_retain(part->stacks);
    if (job->progress.leaves)
        collect_leaves(part, job);
    uint64_t dropped = capture->dropped;
    for (int i = 0; i <= DROP_CORRUPT; i++)
        dropped += capture->base.target->totals.drops[i] - capture->first.drops[i];
    job->progress.event = (struct engine_progress){
        .elapsed_ms = (uint32_t)((now_ns - capture->start_ns) / 1000000),
        .duration_ms = capture->spec.duration_ms,
        .samples = capture->samples,
        .dropped = dropped,
    };
    return job;
}

void jobs_progress(struct cpu_capture *capture, uint64_t now_ns) {
    if (!capture->base.events.on_progress || capture->first_job || capture->running_job)
        return; /* an earlier event has not been handled yet */
    struct capture_job *job =
        create(capture, &capture->window.parts[capture->window.part_count - 1], now_ns);
    if (job)
        job_enqueue(capture, job);
}

bool jobs_wait_progress(struct cpu_capture *capture, const struct report_input *report,
                        uint64_t now_ns) {
    if (!capture->base.events.on_progress || capture->progress_ns == 0 ||
        now_ns < capture->progress_ns || report->part_count == 0)
        return false;
    capture->progress_ns = now_ns + capture->spec.progress_ms * 1000000ull;
    struct capture_job *job = create(capture, &report->parts[report->part_count - 1], now_ns);
    if (job)
        job_push_front(capture, job);
    return job != NULL;
}
