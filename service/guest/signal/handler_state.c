/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/handler_state.h"

#include <time.h>

struct room room; /* all zero: no pages of it are touched before the first capture */
__thread struct room_tags room_tags;

/* xorshift64*: any state but 0 will do. */
uint64_t room_random(struct room_seat *seat) {
    uint64_t state = seat->random;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    seat->random = state;
    return state * 0x2545f4914f6cdd1dull >> 32;
}

uint64_t room_phase(struct room_seat *seat, uint64_t period_ns) {
    return (uint64_t)((__uint128_t)period_ns * room_random(seat) >> 32) + 1;
}

uint64_t room_dither(struct room_seat *seat, uint64_t nominal_ns) {
    return nominal_ns - nominal_ns / 2 + room_phase(seat, nominal_ns);
}

/* Whether something of this size is met at a random moment, against one of the largest size. */
static bool is_met(struct room_seat *seat, uint64_t size, uint64_t largest) {
    return room_phase(seat, largest) <= size;
}

#define TRIES 32 /* each succeeds in two of three cases */

/* For so many ticks at least, and up to twice as many, a period stays. Ticks at one period see work
 * that repeats as often always in the same place: they count as one sample. But each new period
 * costs a system call that sets a hardware timer (12 us in a virtual machine), so it is drawn the
 * more often the slower the clock is. */
static uint32_t fewest_ticks(uint64_t nominal_ns) {
    return nominal_ns >= 5000000 ? 1 : nominal_ns >= 900000 ? 3 : nominal_ns >= 400000 ? 8 : 16;
}

static uint32_t draw_ticks(struct room_seat *seat, uint64_t nominal_ns) {
    uint32_t fewest = fewest_ticks(nominal_ns);
    return fewest + (uint32_t)(room_random(seat) % (fewest + 1));
}

void room_begin_periods(struct room_seat *seat, uint64_t nominal_ns) {
    uint64_t period = nominal_ns, ticks = 1, most = 2 * fewest_ticks(nominal_ns);
    for (int i = 0; i < TRIES; i++) {
        period = room_dither(seat, nominal_ns);
        if (is_met(seat, period, nominal_ns + nominal_ns / 2))
            break;
    }
    for (int i = 0; i < TRIES; i++) {
        ticks = draw_ticks(seat, nominal_ns);
        if (is_met(seat, ticks, most))
            break;
    }
    seat->period_ns = period;
    seat->nominal_ns = nominal_ns;
    seat->until_renewal = (uint32_t)room_phase(seat, ticks);
    seat->rounding = (uint32_t)room_random(seat);
}

#define FIRST_SLACK 30000u /* ns; more than a clock's reading is off */

uint64_t room_periods(const struct room_seat *seat, uint64_t due_ns) {
    uint64_t period = seat->period_ns;
    uint64_t least = (uint64_t)((__uint128_t)period * seat->rounding >> 32);
    uint64_t slack = period / 2 > FIRST_SLACK ? FIRST_SLACK : period / 2;
    if (seat->exact)
        return due_ns + slack < period ? 0 : due_ns < least ? 1 : (due_ns - least) / period + 1;
    return due_ns < least ? 0 : (due_ns - least) / period + 1;
}

bool room_next_period(struct room_seat *seat, uint64_t nominal_ns) {
    if (seat->until_renewal > 1 && nominal_ns == seat->nominal_ns) {
        seat->until_renewal--;
        return false;
    }
    seat->period_ns = room_dither(seat, nominal_ns);
    seat->nominal_ns = nominal_ns;
    seat->until_renewal = draw_ticks(seat, nominal_ns);
    return true;
}

int64_t room_due(const struct room_seat *seat, int64_t cpu_ns) {
    uint64_t counted = atomic_load_explicit(&seat->counted_ns, memory_order_relaxed);
    uint64_t reported = atomic_load_explicit(&seat->reported_ns, memory_order_relaxed);
    return cpu_ns - seat->base_ns - (int64_t)(counted + reported);
}

void room_tell_of_miss(const struct walk_map *map, const uint64_t *pcs,
                       const struct walk_result *walked) {
    if (walked->end != RING_END_NO_TABLE && walked->fp_frames == 0)
        return;
    if (!atomic_load_explicit(&room.misses_wanted, memory_order_relaxed))
        return;
    bool known = true;
    for (uint32_t i = 0; i < walked->depth && known; i++)
        known = walk_map_find(map, (pcs[i] & ~RING_PC_EXACT) - (i > 0)) != NULL;
    if (known || !atomic_exchange(&room.misses_wanted, 0))
        return;
    atomic_store_explicit(&room.missed, 1, memory_order_release);
    room_wake();
}

int64_t room_clock_ns(int clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct room_seat *room_find(uint32_t tid) {
    if (!room.seat_of || tid >= ROOM_TIDS)
        return NULL;
    uint32_t number = atomic_load_explicit(&room.seat_of[tid], memory_order_acquire);
    return number ? &room.seats[number - 1] : NULL;
}

bool room_quiet(uint32_t limit) {
    if (atomic_load(&room.process_in))
        return false;
    for (uint32_t i = 0; i < limit; i++)
        for (uint32_t tries = 0; atomic_load(&room.seats[i].inside); tries++) {
            if (tries == 1000)
                return false;
            __builtin_ia32_pause();
        }
    return true;
}
