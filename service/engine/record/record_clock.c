/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel counted for a target during a window, so that an answer of the history can say
 * how much of it was sampled. The clock goes on between windows: what was used while none was
 * recorded is between the end of one and the begin of the next. The time of the guest's own thread,
 * which is never sampled, is left out. A process that ends is gone before its clock is read, so its
 * last window counts as sampled. */
#include "service/engine/record/record_state.h"

#include "service/host/processes/process_text.h"

void record_read_clock(struct capture_slot *slot, const struct engine_metadata *metadata,
                       struct record *record) {
    uint64_t sampled_ns = metadata->samples * metadata->period_ns,
             used_ns = metadata->target_cpu_ns;
    if (metadata->target_gone && used_ns < sampled_ns)
        used_ns = sampled_ns;
    if (slot->cpu_ns == 0) {
        uint64_t now_ns = process_cpu_ns(slot->recorded->target.pid);
        slot->cpu_ns = now_ns > used_ns ? now_ns - used_ns : 0;
    }
    record->cpu_from_ns = slot->cpu_ns;
    record->cpu_until_ns = slot->cpu_ns += used_ns;
}
