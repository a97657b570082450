/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that uses the sample table first increments one of a few counters, chosen by its
 * address, and then checks that the sampler is enabled. So once the sampler is disabled and all
 * counters are 0, no thread uses the table and none will.
 *
 * Tracers can attach to two probes (USDT), which are one nop each otherwise, with the names and
 * arguments of OpenTelemetry's eBPF profiler: otel_memory:alloc(block, bytes, weighted bytes) for a
 * sampled allocation, and otel_memory:free(block) when such a block is freed. */
#include "service/guest/heap/sampler.h"

#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/heap/random.h"
#include "service/guest/held.h"
#include "service/guest/raw.h"
#include "service/guest/signal/handler_state.h"
#include "service/machine/own/here.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <time.h>

#define COUNTERS 64u
#define NO_EPOCH UINT32_MAX   /* never current: sampler_choose sees each allocation */
#define NEVER    (1ull << 62) /* a countdown that does not run out */

_Alignas(4096) union sampler_page sampler_page;
__thread struct sampler_thread sampler_thread;

static struct { _Alignas(64) _Atomic uint32_t threads; } users[COUNTERS];

static _Atomic uint32_t last_epoch;

/* ---- Quiescence ---- */

static _Atomic uint32_t *own_counter(void) {
    uint64_t self = (uint64_t)&sampler_thread;
    return &users[(self >> 12) * 0x9e3779b97f4a7c15ull >> 58].threads;
}

static uint32_t current_epoch(void) {
    return atomic_load(&sampler_page.state.epoch);
}

/* False when the sampler is disabled. */
static bool enter(_Atomic uint32_t *counter) {
    atomic_fetch_add(counter, 1);
    if (atomic_load(&sampler_page.state.accepts))
        return true;
    atomic_fetch_sub(counter, 1);
    return false;
}

static void leave(_Atomic uint32_t *counter) {
    atomic_fetch_sub_explicit(counter, 1, memory_order_release);
}

bool sampler_is_quiescent(void) {
    for (uint32_t i = 0; i < COUNTERS; i++)
        if (atomic_load(&users[i].threads) != 0)
            return false;
    return true;
}

/* ---- Choosing ---- */

static void init_thread(struct sampler_thread *thread) {
    thread->tid = (uint32_t)raw_gettid();
    uint64_t time = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC);
    thread->random = time * 0x9e3779b97f4a7c15ull ^ (uint64_t)thread << 20 ^ time >> 7;
    if (thread->random == 0)
        thread->random = 1;
}

/* A consistent copy of the options. False while they are being changed, and when disabled. */
static bool read_options(uint32_t *epoch, struct sampler_options *options) {
    *epoch = current_epoch();
    *options = sampler_page.state.options;
    atomic_thread_fence(memory_order_acquire);
    return *epoch != 0 && current_epoch() == *epoch;
}

static void draw_countdown(struct sampler_thread *thread, const struct sampler_options *options) {
    thread->countdown = options->mean > 0 ? random_distance(&thread->random, options->mean) : NEVER;
}

/* True when the countdown runs out at this allocation. */
static bool count_down(struct sampler_thread *thread, uint64_t bytes, bool has_run_out,
                       const struct sampler_options *options) {
    bool over = has_run_out || __builtin_sub_overflow(thread->countdown, bytes, &thread->countdown);
    if (over)
        draw_countdown(thread, options);
    return over && options->mean > 0;
}

static bool is_drawn(struct sampler_thread *thread, double probability) {
    return probability > 0 && (double)(random_next(&thread->random) >> 11) * 0x1p-53 < probability;
}

/* The probability of being sampled by size, by the fixed probability, or by both. */
static double probability_of(uint64_t bytes, const struct sampler_options *options) {
    double by_size = options->mean > 0 ? random_hit_probability((double)bytes / options->mean) : 0;
    return by_size + options->probability - by_size * options->probability;
}

bool sampler_choose(uint64_t bytes, struct sampler_choice *choice) {
    struct sampler_thread *thread = &sampler_thread;
    struct sampler_options options;
    uint32_t epoch;
    bool is_excluded = thread->excluded || held_from_calls();
    if (is_excluded || !read_options(&epoch, &options)) {
        thread->countdown = NEVER;
        thread->epoch = is_excluded ? current_epoch() : 0;
        return false;
    }
    if (thread->random == 0)
        init_thread(thread);
    bool has_run_out = thread->epoch == epoch; /* sampler_is_due has subtracted the bytes */
    if (thread->drawn != epoch)
        draw_countdown(thread, &options);
    thread->drawn = epoch;
    thread->epoch = options.probability > 0 ? NO_EPOCH : epoch;
    bool is_sampled = count_down(thread, bytes, has_run_out, &options);
    is_sampled |= is_drawn(thread, options.probability);
    if (!is_sampled)
        return false;
    double probability = probability_of(bytes, &options);
    *choice = (struct sampler_choice){1 / probability, options.live};
    return probability > 0;
}

/* ---- Noting ---- */

static __attribute__((noinline)) void
note(const void *block, uint64_t bytes, const struct sampler_choice *choice, const void *caller) {
    uint64_t pcs[ALLOC_MAX_DEPTH];
    struct unwind_registers here;
    unwind_registers_here(&here);
    struct alloc_place place;
    uint32_t depth = alloc_backtrace_take(&here, (uint64_t)caller, pcs, ALLOC_MAX_DEPTH, &place);
    struct sample sample = {.size = bytes,
                            .objects = alloc_bits(choice->objects),
                            .time_ns = (uint64_t)handler_clock_ns(CLOCK_MONOTONIC_COARSE),
                            .stack = sample_table_stack(pcs, depth, &place),
                            .tid = sampler_thread.tid};
    if (!sample.stack)
        return;
    double weighted_bytes = choice->objects * (double)bytes;
    sample_table_count(sample.stack, choice->objects, weighted_bytes);
    DTRACE_PROBE3(otel_memory, alloc, block, bytes, (uint64_t)weighted_bytes);
    if (choice->live)
        sample_table_put(block, &sample);
}

void sampler_note(const void *block, uint64_t bytes, const struct sampler_choice *choice,
                  const void *caller) {
    struct sampler_thread *thread = &sampler_thread;
    int saved = errno;
    _Atomic uint32_t *counter = own_counter();
    if (!enter(counter))
        return;
    if (thread->inside) {
        sample_table_drop(ALLOC_DROP_NESTED);
    } else {
        thread->inside = true;
        note(block, bytes, choice, caller);
        thread->inside = false;
    }
    leave(counter);
    errno = saved;
}

bool sampler_forget(const void *block, struct sample *sample) {
    _Atomic uint32_t *counter = own_counter();
    if (!enter(counter))
        return false;
    bool found = sample_table_take(block, sample);
    leave(counter);
    if (found)
        DTRACE_PROBE1(otel_memory, free, block);
    return found;
}

void sampler_restore(const void *block, const struct sample *sample) {
    _Atomic uint32_t *counter = own_counter();
    if (!enter(counter))
        return;
    sample_table_put(block, sample);
    leave(counter);
}

/* ---- Switching ---- */

void sampler_exclude_self(void) {
    sampler_thread.excluded = true;
}

int sampler_enable(const struct sampler_options *options) {
    if (madvise(&sampler_page, sizeof sampler_page, MADV_WIPEONFORK) != 0)
        return errno;
    atomic_store(&sampler_page.state.epoch, 0);
    atomic_thread_fence(memory_order_seq_cst);
    sampler_page.state.options = *options;
    uint32_t epoch = atomic_fetch_add(&last_epoch, 1) + 1;
    if (epoch == NO_EPOCH || epoch == 0)
        atomic_store(&last_epoch, epoch = 1);
    atomic_store(&sampler_page.state.accepts, true);
    atomic_store(&sampler_page.state.epoch, epoch);
    return 0;
}

void sampler_disable(void) {
    atomic_store(&sampler_page.state.epoch, 0);
    atomic_store(&sampler_page.state.accepts, false);
}

/* The kernel has zeroed the state. The counters may include threads of the parent. */
void sampler_after_fork(void) {
    for (uint32_t i = 0; i < COUNTERS; i++)
        atomic_store(&users[i].threads, 0);
    sampler_thread.inside = false;
    sampler_thread.random = 0; /* the tid is another one */
}
