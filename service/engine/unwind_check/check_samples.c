/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/unwind_check/check_run.h"
#include "service/host/rings/rings.h"
#include "service/host/sampler/sampler.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUND_NS  20000000
#define RECENT_NS 5000000u /* records of the last moment may still be on their way */

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    struct process_code *code = context;
    struct unwind_remote remote = process_code_remote(code);
    struct unwind_code found;
    if (!remote.find(remote.context, pc, &found))
        return UNWIND_NOT_CODE;
    *range = (struct unwind_range){.image = found.image, .bias = found.bias};
    return UNWIND_FOUND;
}

static bool is_known(struct check_run *run, uint32_t hash, const uint64_t *pcs, uint32_t count) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&run->index, &probe)) != HASH_INDEX_NONE) {
        const struct check_stack *stack = &run->stacks[number].stack;
        if (stack->count == count &&
            memcmp(run->bytes.data + stack->pcs_at, pcs, count * sizeof *pcs) == 0)
            return true;
    }
    return false;
}

static void keep(struct check_run *run, uint32_t hash, const struct host_sample *sample,
                 const struct unwind_copy_walk *walk) {
    struct check_sampled *kept = &run->stacks[run->count];
    *kept = (struct check_sampled){.end = walk->end};
    memcpy(kept->stack.registers, sample->registers.value, sizeof kept->stack.registers);
    kept->stack.count = walk->count;
    kept->stack.is_whole = walk->end != UNWIND_COPY_DEPTH;
    kept->stack.pcs_at = run->bytes.len;
    sonde_buf_append(&run->bytes, walk->pcs, walk->count * sizeof *walk->pcs);
    kept->stack.stack_at = run->bytes.len;
    kept->stack.stack_bytes = sample->stack_bytes & ~7u;
    sonde_buf_append(&run->bytes, sample->stack, kept->stack.stack_bytes);
    if (run->bytes.failed || !hash_index_add(&run->index, hash, run->count))
        run->is_out_of_memory = true;
    else
        run->count++;
}

static void on_sample(struct check_run *run, const struct host_sample *sample) {
    uint64_t pcs[CHECK_MAX_FRAMES];
    struct unwind_copy copy = {sample->registers, sample->stack, sample->stack_bytes};
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = CHECK_MAX_FRAMES};
    const struct unwind_code_map map = {&run->code, find, 1};
    run->samples++;
    if (sample->abi != HOST_ABI_64) {
        run->others++;
        return;
    }
    unwind_copy_walk(run->walker, &map, &copy, &walk);
    for (uint32_t i = 0; i < walk.count; i++)
        pcs[i] &= ~UNWIND_COPY_EXACT;
    uint32_t hash = hash_index_data(&run->index, pcs, walk.count * sizeof *pcs);
    if (walk.count == 0 || is_known(run, hash, pcs, walk.count))
        return;
    if (run->count == run->spec.max_stacks || run->bytes.len + HOST_MAX_STACK > CHECK_MAX_BYTES)
        run->left_out++;
    else
        keep(run, hash, sample, &walk);
}

static void on_record(void *context, const struct host_record *record) {
    struct check_run *run = context;
    if (record->kind == HOST_LOST)
        run->lost += record->lost;
    else if (record->kind == HOST_SAMPLE && record->pid == run->process.pid)
        on_sample(run, &record->sample);
}

static bool is_over(void *context) {
    const struct check_run *run = context;
    return run->is_out_of_memory || atomic_load(&run->engine->is_ending);
}

static void drain_for(struct check_run *run, struct rings *rings) {
    const struct timespec round = {0, ROUND_NS};
    uint64_t end_ns = now_monotonic_ns() + run->spec.duration_ms * 1000000ull;
    while (now_monotonic_ns() < end_ns && !is_over(run) &&
           process_identity_is_alive(&run->process)) {
        nanosleep(&round, NULL);
        rings_drain(rings, now_monotonic_ns() - RECENT_NS, on_record, run, is_over);
    }
    rings_stop(rings);
    rings_drain(rings, 0, on_record, run, is_over);
}

sonde_err check_take_samples(struct check_run *run, struct sonde_diag *diag) {
    struct rings *rings = NULL;
    struct rings_options options = {.pids = &run->process.pid,
                                    .pid_count = 1,
                                    .period_ns = 1000000000ull / run->spec.frequency_hz,
                                    .stack_bytes = HOST_MAX_STACK,
                                    .create = sampler_create_event,
                                    .create_context = run->engine->sampler};
    run->walker = unwind_walker_create();
    run->stacks = calloc(run->spec.max_stacks, sizeof *run->stacks);
    hash_index_init(&run->index);
    if (!run->walker || !run->stacks)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = rings_open(&options, &rings, diag);
    if (err)
        return err;
    rings_start(rings);
    drain_for(run, rings);
    rings_close(rings);
    return run->is_out_of_memory ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}
