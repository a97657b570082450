/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk beside the way of the last one (walk.h). Frames are dependent loads, each rule's address
 * from the return address before it; words that are known beforehand are independent ones, and the
 * rules need not be read: 2 ns a frame, and no cold line of cache or table.
 *
 * A step is a frame: what came before it (key, sp, bp), and where rbp was saved in it. What comes
 * after it is the next step's beginning: below its sp stands the return address, behind its key.
 * Same key, sp and bp mean the same rule, and so the same two places; same words in them mean the
 * same next step. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_WALK_MEMO_H
#define SONDE_SERVICE_GUEST_SIGNAL_WALK_MEMO_H

#include "service/guest/signal/walk_shared.h"

/* What a walk knows of its trail. */
struct trail_walk {
    struct walk_trail *trail;
    struct walk_way *fresh, *old;
    uint32_t at;   /* in old: where it may be met again */
    bool is_whole; /* all that comes is the old way's end: fresh has what differs before it */
};

WALK_INLINE void trail_begin(struct trail_walk *on, struct walk_trail *trail,
                             const struct walk_map *map) {
    *on = (struct trail_walk){trail, &trail->ways[1 - trail->which], &trail->ways[trail->which], 0,
                              false};
    if (trail->generation != map->generation)
        on->old->count = 0;
    trail->generation = map->generation;
    on->fresh->count = 0;
}

/* A walk that was not fast leaves what it has: each step holds for itself. */
WALK_INLINE void trail_end(struct trail_walk *on) {
    if (on->is_whole)
        for (uint32_t i = 0; i < on->fresh->count; i++)
            on->old->steps[i] = on->fresh->steps[i];
    else
        on->trail->which = 1 - on->trail->which;
}

WALK_INLINE void trail_note(struct trail_walk *on, const struct walk_trail_step *step) {
    if (!on->is_whole && on->fresh->count < WALK_TRAIL_STEPS)
        on->fresh->steps[on->fresh->count++] = *step;
}

/* Whether the walk is where the last one was; stacks grow downwards, so places rise. */
WALK_INLINE bool trail_meets(struct trail_walk *on, uint64_t key, uint64_t sp, uint64_t bp) {
    const struct walk_way *old = on->old;
    while (on->at + 1 < old->count && old->steps[on->at].sp < sp)
        on->at++;
    const struct walk_trail_step *step = &old->steps[on->at];
    return on->at + 1 < old->count && step->sp == sp && step->key == key && step->bp == bp;
}

/* Steps from `step` on whose words are what they were, up to `last`: their callers are written to
 * `out`. A function of its own: it wants all registers. */
static __attribute__((noinline)) const struct walk_trail_step *
trail_follow(const struct walk_trail_step *step, const struct walk_trail_step *last, uint64_t low,
             uint64_t span, uint64_t *out) {
    for (; step < last; step++) {
        uint64_t place = step[1].sp - 8, rbp_place = step->rbp_place, caller, saved;
        if (rbp_place != place &&
            (rbp_place - low > span || !walk_load(rbp_place, &saved) || saved != step[1].bp))
            break;
        if (WALK_UNLIKELY(place - low > span || !walk_load(place, &caller) ||
                          caller != step[1].key + 1))
            break;
        *out++ = caller;
    }
    return step;
}

/* Goes along from where trail_meets as far as every word is what it was: writes the callers, at
 * most `room`, and returns the step that was come to. The last step of a way is its end. */
WALK_INLINE const struct walk_trail_step *trail_go(struct trail_walk *on, const struct walk *walk,
                                                   uint64_t *out, uint64_t room) {
    const struct walk_way *old = on->old;
    const struct walk_trail_step *from = &old->steps[on->at], *end = &old->steps[old->count - 1];
    const struct walk_trail_step *last = room < (uint64_t)(end - from) ? from + room : end;
    const struct walk_trail_step *step = trail_follow(from, last, walk->low, walk->span, out);
    on->is_whole = on->fresh->count == on->at && step == end;
    for (; !on->is_whole && from < step; from++)
        trail_note(on, from);
    on->at = (uint32_t)(step - old->steps);
    return step;
}

#endif
