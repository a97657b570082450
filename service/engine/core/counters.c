/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/core/engine_state.h"

#include "service/symbol/symbol.h"

#include <string.h>

const char *drop_cause_name(int cause) {
    static const char *const names[DROP_CAUSES] = {
        [RING_DROP_FULL] = "ring_full",          [RING_DROP_CONTENDED] = "contended",
        [RING_DROP_NO_CONTEXT] = "no_context",   [RING_DROP_NESTED] = "nested",
        [RING_DROP_NO_STACK] = "no_stack",       [DROP_CORRUPT] = "corrupt",
        [DROP_STACKS_FULL] = "stack_table_full", [DROP_UNREAD] = "unread",
        [DROP_PROCESSES] = "too_many_processes", [DROP_MEMORY] = "memory_of_user",
    };
    return names[cause];
}

void engine_counters(struct engine *engine, struct engine_counters *counters) {
    memset(counters, 0, sizeof *counters);
    lock_take(&engine->targets_lock);
    counters->targets = engine->target_count;
    lock_drop(&engine->targets_lock);
    counters->captures_running = atomic_load(&engine->captures_running);
    counters->streams_running = atomic_load(&engine->streams_running);
    counters->captures_total = atomic_load(&engine->captures_total);
    counters->samples_total = atomic_load(&engine->samples_total);
    counters->drop_count = DROP_CAUSES;
    for (int i = 0; i < DROP_CAUSES; i++)
        counters->drops[i] = (struct engine_drop){.cause = drop_cause_name(i),
                                                  .count = atomic_load(&engine->drops[i])};
    counters->drops[counters->drop_count++] =
        (struct engine_drop){.cause = "jit_names_memory_of_user", .count = symbol_jit_refused()};
}
