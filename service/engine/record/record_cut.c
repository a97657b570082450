/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends the open windows before their time, for somebody who asks what was recorded until now. */
#include "service/engine/record/record_state.h"

#include "api/base/clock.h"

#define NS_PER_MS 1000000

/* With the lock held: whether samples from before fresh_unix_ns may still be in its open window. */
static bool is_awaited(const struct capture_slot *slot, int64_t fresh_unix_ns) {
    return slot->capture && !slot->is_mute && slot->until_unix_ns < fresh_unix_ns;
}

static struct recorded *next_of(struct recorder *recorder, struct recorded *recorded) {
    return recorded == recorder->machine ? recorder->targets : recorded->next;
}

static struct recorded *first_of(struct recorder *recorder) {
    return recorder->machine ? recorder->machine : recorder->targets;
}

/* With the lock held. A capture that is mute is asked, too: its process may have gone on. */
static void cut_all(struct recorder *recorder, int64_t fresh_unix_ns) {
    for (struct recorded *recorded = first_of(recorder); recorded;
         recorded = next_of(recorder, recorded))
        for (int i = 0; i < CAPTURES; i++)
            if (recorded->slots[i].capture && recorded->slots[i].until_unix_ns < fresh_unix_ns)
                engine_capture_cut(recorded->slots[i].capture);
}

/* With the lock held. */
static bool are_delivered(struct recorder *recorder, int64_t fresh_unix_ns) {
    for (struct recorded *recorded = first_of(recorder); recorded;
         recorded = next_of(recorder, recorded))
        for (int i = 0; i < CAPTURES; i++)
            if (is_awaited(&recorded->slots[i], fresh_unix_ns))
                return false;
    return true;
}

/* With the lock held: those that did not answer in time, as of a stopped process, delay nobody
 * again. */
static void note_mute(struct recorder *recorder, int64_t fresh_unix_ns) {
    for (struct recorded *recorded = first_of(recorder); recorded;
         recorded = next_of(recorder, recorded))
        for (int i = 0; i < CAPTURES; i++)
            if (is_awaited(&recorded->slots[i], fresh_unix_ns))
                recorded->slots[i].is_mute = true;
}

void record_cut(struct recorder *recorder, uint32_t wait_ms) {
    int64_t fresh_unix_ns = clock_ns(CLOCK_REALTIME) - (int64_t)RECORD_FRESH_MS * NS_PER_MS;
    const struct timespec until = clock_wait_end(wait_ms);
    bool is_in_time = true;
    lock_take(&recorder->lock);
    if (!recorder->is_finishing)
        cut_all(recorder, fresh_unix_ns);
    while (!recorder->is_finishing && is_in_time && !are_delivered(recorder, fresh_unix_ns))
        is_in_time = lock_wait_until(&recorder->lock, &recorder->delivered, &until);
    if (!is_in_time)
        note_mute(recorder, fresh_unix_ns);
    lock_drop(&recorder->lock);
}
