/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a target's heap profiling, saved for the next sonded in the file "state" beside the
 * dumps:
 *
 *     sonde-heap 1
 *     process <pid> ticks <n> uid <n>         the process, its start and its user
 *     active 1 since <ns> lease <ns> interval <s> keep <dumps> <bytes> epoch <n>
 *     owner <text>
 *     name <text>                             of the target, for reading it after its end
 *     dump 000001 epoch 1                     one per dump
 *
 * The file is ours, but a line that is cut off or out of bounds must do no harm, so it is skipped.
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_SAVED_STATE_H
#define SONDE_SERVICE_ENGINE_HEAP_SAVED_STATE_H

#include "service/engine/heap/dumps.h"

#include <stdio.h>

#define HEAP_MEMORY_MAX_INTERVAL_S 86400u

struct heap_saved_state {
    int32_t pid;
    uint64_t ticks; /* since boot; 0 = not known */
    uint32_t uid;   /* its user */
    bool active;
    int64_t since_unix_ns, lease_until_unix_ns;
    uint32_t interval_s, keep_dumps;
    uint64_t keep_bytes, epoch;
    char owner[65], name[64];
};

void heap_saved_state_write(const struct heap_saved_state *memory, const struct heap_dumps *dumps,
                            FILE *file);
/* Values that the file lacks stay unchanged. dumps receives the epochs; may be NULL. */
void heap_saved_state_read(struct heap_saved_state *memory, struct heap_dumps *dumps, FILE *file);

#endif
