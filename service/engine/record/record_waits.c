/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU time of processes without the guest: each of those that are wanted has a capture of its
 * own beside the one of the whole machine, which knows which processes there are. */
#include "service/engine/record/record_state.h"

#include "api/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Processes of a window that are to have off-CPU time; they belong to the machine. */
struct wanted {
    const struct record_options *options;
    struct wanted_process {
        const struct engine_target *target;
        const char *cgroup;
    } * processes;
    size_t count, capacity;
};

bool record_wants_waits(const struct record_options *options, const struct engine_target *target,
                        const char *cgroup) {
    return options->off_cpu_ms != 0 &&
           (!options->wants_waits || options->wants_waits(options->context, target, cgroup));
}

/* With the lock held: those whose capture has ended. It is started again if they are still
 * there. */
static void remove_ended(struct recorder *recorder) {
    for (struct recorded **at = &recorder->waits; *at;) {
        struct recorded *recorded = *at;
        if (recorded->slots[OFF_CPU].capture) {
            at = &recorded->next;
            continue;
        }
        *at = recorded->next;
        recorder->waits_count--;
        record_release(recorded);
    }
}

static bool is_known(const struct recorder *recorder, const char *uuid) {
    const struct recorded *recorded = recorder->waits;
    while (recorded && strcmp(recorded->target.uuid, uuid) != 0)
        recorded = recorded->next;
    return recorded != NULL;
}

/* Its guest records its off-CPU time. */
static bool has_guest(const struct recorder *recorder, pid_t pid) {
    const struct recorded *recorded = recorder->targets;
    while (recorded && recorded->target.pid != pid)
        recorded = recorded->next;
    return recorded != NULL;
}

/* Without memory the next window tries again. */
static void on_process(void *context, const struct engine_target *target, const char *cgroup) {
    struct wanted *wanted = context;
    if (record_wants_waits(wanted->options, target, cgroup) &&
        array_room(&wanted->processes, &wanted->capacity, wanted->count, 1))
        wanted->processes[wanted->count++] = (struct wanted_process){target, cgroup};
}

/* With the lock held. */
static void begin_waits(struct recorder *recorder, const struct engine_target *target,
                        const char *cgroup) {
    const struct record_options *options = &recorder->options;
    if (is_known(recorder, target->uuid) || has_guest(recorder, target->pid))
        return;
    if (recorder->waits_count >= RECORD_MAX_WAITS) {
        recorder->waits_left_out++;
        return;
    }
    struct recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded)
        return; /* the next window tries again */
    recorded->refs = 1;
    recorded->recorder = recorder;
    recorded->heap.room = &recorder->heap_room;
    recorded->target = *target;
    recorded->is_outside = recorded->wants_waits = true;
    snprintf(recorded->cgroup, sizeof recorded->cgroup, "%s", cgroup);
    recorded->choice = (struct record_choice){options->frequency_hz, 1, false};
    for (int i = 0; i < CAPTURES; i++)
        recorded->slots[i].recorded = recorded;
    recorded->slots[CPU].retry_ms = UINT64_MAX;
    recorded->next = recorder->waits;
    recorder->waits = recorded;
    recorder->waits_count++;
    record_start_capture(&recorded->slots[OFF_CPU]);
}

void record_waits_leave(struct recorder *recorder, pid_t pid) {
    for (struct recorded *recorded = recorder->waits; recorded; recorded = recorded->next)
        if (recorded->target.pid == pid && recorded->slots[OFF_CPU].capture)
            engine_capture_finish(recorded->slots[OFF_CPU].capture);
}

void record_waits_update(struct recorder *recorder, const struct machine *machine) {
    const struct record_options *options = &recorder->options;
    if (!options->wants_waits || options->off_cpu_ms == 0)
        return;
    struct wanted wanted = {.options = options};
    machine_each(machine, on_process, &wanted);
    lock_take(&recorder->lock);
    remove_ended(recorder);
    recorder->waits_left_out = 0;
    for (size_t i = 0; i < wanted.count && !recorder->is_finishing; i++)
        begin_waits(recorder, wanted.processes[i].target, wanted.processes[i].cgroup);
    lock_drop(&recorder->lock);
    free(wanted.processes);
}

uint32_t record_waits_left_out(struct recorder *recorder) {
    lock_take(&recorder->lock);
    uint32_t count = recorder->waits_left_out;
    lock_drop(&recorder->lock);
    return count;
}
