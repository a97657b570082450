/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes are left to their guests, and what is recorded where the machine is refused. */
#include "service/engine/record/record_state.h"

#include "api/base/array.h"
#include "api/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sonde_err add_guest(struct guests *guests, pid_t pid, int64_t until_unix_ns) {
    if (!array_room(&guests->items, &guests->capacity, guests->count, 1))
        return SONDE_OUT_OF_MEMORY;
    guests->items[guests->count++] = (struct guest_pid){pid, until_unix_ns};
    return SONDE_OK;
}

static int compare_pids(const void *left, const void *right) {
    pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;
    return (a > b) - (a < b);
}

/* With the lock held: the pids of all whose guests deliver the time of the window that ended then.
 * One that is attached may lose its capture in the next window. A window arrives late, so one that
 * has gone since its end may have lived in the next window. */
static sonde_err take_guests(struct recorder *recorder, int64_t until_unix_ns,
                             struct machine_skip *skip) {
    struct guests *guests = &recorder->guests;
    sonde_err err = SONDE_OK;
    size_t kept = 0;
    for (struct recorded *recorded = recorder->targets; recorded && !err; recorded = recorded->next)
        if (recorded->slots[CPU].capture)
            err = add_guest(guests, recorded->target.pid, until_unix_ns + 1);
    pid_t *pids = malloc((guests->count + 1) * sizeof *pids);
    if (!pids)
        return SONDE_OUT_OF_MEMORY;
    *skip = (struct machine_skip){pids, guests->count};
    for (size_t i = 0; i < guests->count; i++) {
        struct guest_pid guest = guests->items[i];
        pids[i] = guest.pid;
        if (guest.until_unix_ns > until_unix_ns)
            guests->items[kept++] = guest;
    }
    guests->count = kept;
    qsort(pids, skip->count, sizeof *pids, compare_pids);
    return err;
}

void record_machine_add(struct recorded *recorded, struct sonde_profile *profile,
                        const struct engine_metadata *metadata) {
    struct recorder *recorder = recorded->recorder;
    const struct record_options *options = &recorder->options;
    struct machine_skip skip = {NULL, 0};
    lock_take(&recorder->lock);
    sonde_err err = take_guests(recorder, metadata->end_unix_ns, &skip);
    lock_drop(&recorder->lock);
    const struct machine_receiver receiver = {options->choose, options->on_record,
                                              options->context};
    if (!err)
        err = machine_split(recorded->machine, profile, metadata, &skip, &receiver);
    record_waits_update(recorder, recorded->machine);
    lock_take(&recorder->lock);
    recorder->is_incomplete = err != SONDE_OK;
    if (!recorded->is_own)
        recorder->refusal[0] = 0;
    lock_drop(&recorder->lock);
    free((void *)skip.pids);
    sonde_profile_destroy(profile);
}

sonde_err record_machine_create(struct recorder *recorder) {
    struct recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded)
        return SONDE_OUT_OF_MEMORY;
    recorded->refs = 1;
    recorded->recorder = recorder;
    recorded->heap.room = &recorder->heap_room;
    recorded->choice = (struct record_choice){recorder->options.frequency_hz, 1, false};
    for (int i = 0; i < CAPTURES; i++)
        recorded->slots[i].recorded = recorded;
    recorded->slots[OFF_CPU].retry_ms = UINT64_MAX;
    recorded->machine = machine_create();
    recorder->machine = recorded;
    return recorded->machine ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err record_machine_start_own(struct capture_slot *slot, const struct engine_cpu_spec *machine,
                                   const struct engine_capture_events *events) {
    struct recorded *recorded = slot->recorded;
    struct engine_cpu_spec spec = *machine;
    char reason[RECORD_REFUSAL];
    spec.target.own = true;
    sonde_err err =
        engine_capture_cpu(recorded->recorder->engine, &spec, events, slot, &slot->capture, NULL);
    recorded->is_own = !err;
    if (err)
        return err;
    memcpy(reason, recorded->recorder->refusal, sizeof reason);
    snprintf(recorded->recorder->refusal, RECORD_REFUSAL, "those of other users: %.*s",
             RECORD_REFUSAL - 32, reason);
    return SONDE_OK;
}

void record_machine_widen(struct recorder *recorder) {
    const struct engine_selector every = {.all = true};
    struct capture_slot *slot = &recorder->machine->slots[CPU];
    struct engine_target machine;
    if (!recorder->machine->is_own || !slot->capture || recorder->now_ms < recorder->widen_ms)
        return;
    recorder->widen_ms = recorder->now_ms + RECORD_MAX_TRY_MS;
    if (engine_find(recorder->engine, &every, &machine, NULL) == SONDE_OK)
        engine_capture_finish(slot->capture);
}

void record_machine_finish(struct recorder *recorder) {
    free(recorder->guests.items);
}

void record_machine_leave(struct recorder *recorder, pid_t pid) {
    if (recorder->machine && recorder->machine->slots[CPU].capture) /* a window takes it */
        (void)add_guest(&recorder->guests, pid, clock_ns(CLOCK_REALTIME));
}

void record_refusal(struct recorder *recorder, char text[RECORD_REFUSAL]) {
    lock_take(&recorder->lock);
    if (recorder->is_incomplete)
        snprintf(text, RECORD_REFUSAL, "a window is incomplete: out of memory");
    else
        memcpy(text, recorder->refusal, RECORD_REFUSAL);
    lock_drop(&recorder->lock);
}
