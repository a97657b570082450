/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/core/target.h"

#include <stdlib.h>

struct target *target_create(struct engine *engine, const struct source_ops *source) {
    struct target *target = calloc(1, sizeof *target);
    if (!target)
        return NULL;
    target->refs = 1;
    target->engine = engine;
    target->source = source;
    for (int i = 0; i < SESSION_KINDS; i++)
        target->sessions[i] = (struct session){.target = target, .kind = (enum session_kind)i};
    return target;
}

struct target *target_retain(struct target *target) {
    atomic_fetch_add_explicit(&target->refs, 1, memory_order_relaxed);
    return target;
}

void target_empty(struct target *target) {
    if (target->source->empty)
        target->source->empty(target);
    space_finish(&target->space);
    mapping_lives_release(target->lives);
    target->lives = NULL;
    thread_names_finish(&target->names);
    stacks_release(target->stacks);
    target->stacks = NULL;
}

void target_release(struct target *target) {
    if (!target || atomic_fetch_sub_explicit(&target->refs, 1, memory_order_acq_rel) != 1)
        return;
    target_empty(target);
    for (int i = 0; i < SESSION_KINDS; i++)
        sonde_profile_destroy(target->sessions[i].result);
    if (target->heap)
        target->heap_destroy(target->heap);
    process_identity_finish(&target->process);
    free(target->guest);
    free(target->host);
    free(target->command);
    free(target);
}

void target_enlist(struct target *target) {
    struct engine *engine = target->engine;
    lock_take(&engine->targets_lock);
    target->next = engine->targets;
    engine->targets = target;
    lock_drop(&engine->targets_lock);
}

void target_relist(struct target *target) {
    for (struct target *other = target->engine->targets; other; other = other->next) {
        if (other == target)
            return;
    }
    target_enlist(target_retain(target));
}

void target_start_job(struct target *target, struct pool *pool, struct job *job) {
    bool builds = pool == target->engine->builders;
    engine_prepare_job(target->engine, job);
    pool_add_to(pool, builds ? &target->building : &target->reporting, &job->work);
}
