/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that works on the samples stands in one of the doors, a few counters by its address, and
 * looks at the gate again once it does: a closed gate and empty doors mean that nobody is inside,
 * and nobody will be. */
#include "service/guest/heap/sampler.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/random.h"
#include "service/guest/raw.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#define DOORS    64u
#define NO_EPOCH UINT32_MAX /* of a thread that is to ask each time */
#define FAR      (1ull << 62)

_Alignas(4096) union sampler_page sampler_page;
__thread struct sampler_thread sampler_thread;

static struct { _Alignas(64) _Atomic uint32_t inside; } doors[DOORS];

static _Atomic uint32_t last_epoch;

/* ---- Doors ---- */

static _Atomic uint32_t *own_door(void) {
    uint64_t self = (uint64_t)&sampler_thread;
    return &doors[(self >> 12) * 0x9e3779b97f4a7c15ull >> 58].inside;
}

static uint32_t gate_epoch(void) {
    return atomic_load(&sampler_page.gate.epoch);
}

/* False when the gate is closed. */
static bool enter(_Atomic uint32_t *door) {
    atomic_fetch_add(door, 1);
    if (atomic_load(&sampler_page.gate.keeps))
        return true;
    atomic_fetch_sub(door, 1);
    return false;
}

static void leave(_Atomic uint32_t *door) {
    atomic_fetch_sub_explicit(door, 1, memory_order_release);
}

bool sampler_is_quiet(void) {
    for (uint32_t i = 0; i < DOORS; i++)
        if (atomic_load(&doors[i].inside) != 0)
            return false;
    return true;
}

/* ---- Which ---- */

static void greet(struct sampler_thread *thread) {
    thread->tid = (uint32_t)raw_gettid();
    uint64_t time = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC);
    thread->random = time * 0x9e3779b97f4a7c15ull ^ (uint64_t)thread << 20 ^ time >> 7;
    if (thread->random == 0)
        thread->random = 1;
}

/* The demand as a whole: false when it is being changed or the gate is closed. */
static bool read_demand(uint32_t *epoch, struct sampler_demand *demand) {
    *epoch = gate_epoch();
    *demand = sampler_page.gate.demand;
    atomic_thread_fence(memory_order_acquire);
    return *epoch != 0 && gate_epoch() == *epoch;
}

static void count_down_anew(struct sampler_thread *thread, const struct sampler_demand *demand) {
    thread->countdown = demand->mean > 0 ? chance_distance(&thread->random, demand->mean) : FAR;
}

/* True when the countdown has run out at this allocation. */
static bool run_down(struct sampler_thread *thread, uint64_t bytes, bool is_late,
                     const struct sampler_demand *demand) {
    bool over = is_late || __builtin_sub_overflow(thread->countdown, bytes, &thread->countdown);
    if (over)
        count_down_anew(thread, demand);
    return over && demand->mean > 0;
}

static bool is_lucky(struct sampler_thread *thread, double probability) {
    return probability > 0 &&
           (double)(chance_random(&thread->random) >> 11) * 0x1p-53 < probability;
}

/* The chance that either took it. */
static double chance_of(uint64_t bytes, const struct sampler_demand *demand) {
    double by_size = demand->mean > 0 ? chance_hit((double)bytes / demand->mean) : 0;
    return by_size + demand->probability - by_size * demand->probability;
}

bool sampler_choose(uint64_t bytes, struct sampler_choice *choice) {
    struct sampler_thread *thread = &sampler_thread;
    struct sampler_demand demand;
    uint32_t epoch;
    if (thread->muted || !read_demand(&epoch, &demand)) {
        thread->countdown = FAR;
        thread->epoch = thread->muted ? gate_epoch() : 0;
        return false;
    }
    if (thread->random == 0)
        greet(thread);
    bool is_late = thread->epoch == epoch; /* sampler_is_due has counted it already */
    if (thread->drawn != epoch)
        count_down_anew(thread, &demand);
    thread->drawn = epoch;
    thread->epoch = demand.probability > 0 ? NO_EPOCH : epoch;
    bool taken = run_down(thread, bytes, is_late, &demand);
    taken |= is_lucky(thread, demand.probability);
    if (!taken)
        return false;
    double chance = chance_of(bytes, &demand);
    *choice = (struct sampler_choice){1 / chance, demand.live};
    return chance > 0;
}

/* ---- What is noted ---- */

static __attribute__((noinline)) void
note(const void *block, uint64_t bytes, const struct sampler_choice *choice, const void *caller) {
    uint64_t pcs[ALLOC_MAX_DEPTH];
    struct walk_registers here;
    walk_registers_here(&here);
    uint32_t depth = alloc_backtrace_take(&here, (uint64_t)caller, pcs, ALLOC_MAX_DEPTH);
    struct sample sample = {.size = bytes,
                            .objects = alloc_bits(choice->objects),
                            .time_ns = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC_COARSE),
                            .stack = samples_stack(pcs, depth),
                            .tid = sampler_thread.tid};
    if (!sample.stack)
        return;
    samples_count(sample.stack, choice->objects, choice->objects * (double)bytes);
    if (choice->live)
        samples_put(block, &sample);
}

void sampler_note(const void *block, uint64_t bytes, const struct sampler_choice *choice,
                  const void *caller) {
    struct sampler_thread *thread = &sampler_thread;
    int saved = errno;
    _Atomic uint32_t *door = own_door();
    if (!enter(door))
        return;
    if (thread->inside) {
        samples_drop(ALLOC_DROP_NESTED);
    } else {
        thread->inside = true;
        note(block, bytes, choice, caller);
        thread->inside = false;
    }
    leave(door);
    errno = saved;
}

bool sampler_forget(const void *block, struct sample *sample) {
    _Atomic uint32_t *door = own_door();
    if (!enter(door))
        return false;
    bool found = samples_take(block, sample);
    leave(door);
    return found;
}

void sampler_restore(const void *block, const struct sample *sample) {
    _Atomic uint32_t *door = own_door();
    if (!enter(door))
        return;
    samples_put(block, sample);
    leave(door);
}

/* ---- The gate ---- */

void sampler_mute(void) {
    sampler_thread.muted = true;
}

int sampler_open(const struct sampler_demand *demand) {
    if (madvise(&sampler_page, sizeof sampler_page, MADV_WIPEONFORK) != 0)
        return errno;
    atomic_store(&sampler_page.gate.epoch, 0);
    atomic_thread_fence(memory_order_seq_cst);
    sampler_page.gate.demand = *demand;
    uint32_t epoch = atomic_fetch_add(&last_epoch, 1) + 1;
    if (epoch == NO_EPOCH || epoch == 0)
        atomic_store(&last_epoch, epoch = 1);
    atomic_store(&sampler_page.gate.keeps, true);
    atomic_store(&sampler_page.gate.epoch, epoch);
    return 0;
}

void sampler_close(void) {
    atomic_store(&sampler_page.gate.epoch, 0);
    atomic_store(&sampler_page.gate.keeps, false);
}

/* The kernel has emptied the gate; doors that other threads stood in are empty here. */
void sampler_after_fork(void) {
    for (uint32_t i = 0; i < DOORS; i++)
        atomic_store(&doors[i].inside, 0);
    sampler_thread.inside = false;
    sampler_thread.random = 0; /* another tid */
}
