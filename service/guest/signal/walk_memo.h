/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk that reuses the frames of the thread's last walk (walk.h). An ordinary walk is a chain of
 * dependent loads: each rule is found by the return address before it. With the memo the addresses
 * of all words are known beforehand, so their loads are independent, and rules need not be read: 2
 * ns a frame, and no cold line of cache or table.
 *
 * A frame's key, sp and bp determine its rule, and so where its return address and rbp are saved.
 * If those two words are what they were, the next frame is what it was: the return address is the
 * next frame's key + 1. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_WALK_MEMO_H
#define SONDE_SERVICE_GUEST_SIGNAL_WALK_MEMO_H

#include "service/guest/signal/walk_shared.h"

/* One walk's use of its memo. */
struct memo_walk {
    struct walk_memo *memo;
    struct walk_memo_path *fresh, *old; /* this walk's path, the last walk's */
    uint32_t at;                        /* the frame of `old` that this walk may reach next */
    bool is_same; /* the rest is the rest of `old`; `fresh` has only what comes before */
};

WALK_INLINE void memo_begin(struct memo_walk *on, struct walk_memo *memo,
                            const struct walk_map *map) {
    *on =
        (struct memo_walk){memo, &memo->paths[1 - memo->last], &memo->paths[memo->last], 0, false};
    if (memo->generation != map->generation)
        on->old->count = 0;
    memo->generation = map->generation;
    on->fresh->count = 0;
}

/* A path that differs only at its leaf is updated in place. A walk that had to leave the fast loop
 * keeps the frames it has: each of them holds for itself. */
WALK_INLINE void memo_end(struct memo_walk *on) {
    if (on->is_same)
        for (uint32_t i = 0; i < on->fresh->count; i++)
            on->old->frames[i] = on->fresh->frames[i];
    else
        on->memo->last = 1 - on->memo->last;
}

WALK_INLINE void memo_add(struct memo_walk *on, const struct walk_memo_frame *frame) {
    if (!on->is_same && on->fresh->count < WALK_MEMO_FRAMES)
        on->fresh->frames[on->fresh->count++] = *frame;
}

/* Whether the old path has this frame. Stacks grow downwards, so sp rises along a path. */
WALK_INLINE bool memo_has(struct memo_walk *on, uint64_t key, uint64_t sp, uint64_t bp) {
    const struct walk_memo_path *old = on->old;
    while (on->at + 1 < old->count && old->frames[on->at].sp < sp)
        on->at++;
    const struct walk_memo_frame *frame = &old->frames[on->at];
    return on->at + 1 < old->count && frame->sp == sp && frame->key == key && frame->bp == bp;
}

/* Writes the callers of the frames from `frame` to `last` to `out`, as long as their saved words
 * are unchanged, and returns the frame it stopped at. Not inlined, since it needs all registers. */
static __attribute__((noinline)) const struct walk_memo_frame *
memo_compare(const struct walk_memo_frame *frame, const struct walk_memo_frame *last, uint64_t low,
             uint64_t span, uint64_t *out) {
    for (; frame < last; frame++) {
        uint64_t rbp_place = frame->rbp_place, caller, saved;
        uint64_t place = unwind_pc_place(frame[1].sp, rbp_place);
        if (rbp_place != place &&
            (rbp_place - low > span || !walk_load(rbp_place, &saved) || saved != frame[1].bp))
            break;
        if (WALK_UNLIKELY(place - low > span || !walk_load(place, &caller) ||
                          unwind_strip(caller) != frame[1].key + 1))
            break;
        *out++ = unwind_strip(caller);
    }
    return frame;
}

/* After memo_has: writes the callers that are unchanged, at most max, and returns the frame it
 * reached. */
WALK_INLINE const struct walk_memo_frame *memo_reuse(struct memo_walk *on, const struct walk *walk,
                                                     uint64_t *out, uint64_t max) {
    const struct walk_memo_path *old = on->old;
    const struct walk_memo_frame *from = &old->frames[on->at], *end = &old->frames[old->count - 1];
    const struct walk_memo_frame *last = max < (uint64_t)(end - from) ? from + max : end;
    const struct walk_memo_frame *frame = memo_compare(from, last, walk->low, walk->span, out);
    on->is_same = on->fresh->count == on->at && frame == end;
    for (; !on->is_same && from < frame; from++)
        memo_add(on, from);
    on->at = (uint32_t)(frame - old->frames);
    return frame;
}

#endif
