/* SPDX-License-Identifier: Apache-2.0
 *
 * What this engine may do from outside. */
#include "service/engine/core/engine_state.h"
#include "service/host/counters.h"

void engine_rights(struct engine *engine, struct host_right *rights) {
    uint32_t granted = 0;
    host_rights_read(engine->sampler, rights);
    for (uint32_t i = 0; i < RIGHT_KINDS; i++)
        granted |= (uint32_t)rights[i].is_granted << i;
    lock_take(&engine->rights_lock);
    engine->rights = granted;
    engine->rights_read_ns = now_monotonic_ns();
    lock_drop(&engine->rights_lock);
}

bool engine_has_right(struct engine *engine, enum host_right_kind kind) {
    struct host_right rights[RIGHT_KINDS];
    lock_take(&engine->rights_lock);
    uint32_t granted = engine->rights;
    uint64_t read_ns = engine->rights_read_ns;
    lock_drop(&engine->rights_lock);
    if (read_ns != 0 && now_monotonic_ns() - read_ns < ENGINE_RIGHTS_NS)
        return granted >> kind & 1;
    engine_rights(engine, rights);
    return rights[kind].is_granted;
}

void engine_counters_of_machine(struct engine *engine, struct host_counter *counters) {
    host_counters_read(engine->sampler, counters);
}
