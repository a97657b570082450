/* SPDX-License-Identifier: Apache-2.0
 *
 * What this engine may do from outside. */
#include "service/engine/core/engine_state.h"
#include "service/host/counters.h"

static void remember(struct engine *engine, int kind, const struct host_right *right) {
    lock_take(&engine->rights_lock);
    engine->rights[kind].is_granted = right->is_granted;
    engine->rights[kind].read_ns = now_monotonic_ns();
    lock_drop(&engine->rights_lock);
}

void engine_rights(struct engine *engine, struct host_right *rights) {
    host_rights_read(engine->sampler, rights);
    for (int i = 0; i < RIGHT_KINDS; i++)
        remember(engine, i, &rights[i]);
}

bool engine_has_right(struct engine *engine, enum host_right_kind kind) {
    struct host_right right;
    lock_take(&engine->rights_lock);
    bool is_granted = engine->rights[kind].is_granted;
    uint64_t read_ns = engine->rights[kind].read_ns;
    lock_drop(&engine->rights_lock);
    if (read_ns != 0 && now_monotonic_ns() - read_ns < ENGINE_RIGHTS_NS)
        return is_granted;
    host_right_read(engine->sampler, kind, &right);
    remember(engine, kind, &right);
    return right.is_granted;
}

void engine_counters_of_machine(struct engine *engine, struct host_counter *counters) {
    host_counters_read(engine->sampler, counters);
}
