/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde's allocation sampler: which allocations are sampled, and what is noted of them. The malloc
 * wrappers (malloc_wrappers.h) ask here.
 *
 * Each thread counts down the bytes to its next sample, which costs an allocation one comparison
 * and one subtraction. The distance between samples is the whole part of an exponential of mean R.
 * An exponential has no memory, so an allocation of n bytes is sampled with probability
 * 1 - exp(-n / R) whatever came before it. When each allocation is to be sampled with a fixed
 * probability (R = 1 is probability 1), no thread's epoch ever matches, and sampler_choose sees
 * every allocation. Each sample stores its own probability, so estimates stay exact when R changes.
 *
 * The kernel zeroes the state in the child of a fork (MADV_WIPEONFORK), which disables the sampler
 * there. Nothing is sampled while the sampler is disabled, or on the control thread. Functions are
 * signal-safe and preserve errno, except where they say control thread. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLER_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLER_H

#include "service/guest/heap/sample_table.h"

#pragma GCC visibility push(hidden)

struct sampler_options {
    double mean;        /* bytes between samples; 0 = none by size */
    double probability; /* of each allocation, in addition; 0 = none */
    bool live;          /* remember sampled blocks until they are freed */
};

struct sampler_state {
    _Atomic uint32_t epoch; /* 0 = disabled, or the options are being changed */
    _Atomic bool accepts;   /* the sample table may be used */
    struct sampler_options options;
};
extern union sampler_page {
    struct sampler_state state;
    uint8_t bytes[4096]; /* MADV_WIPEONFORK works on whole pages */
} sampler_page;

struct sampler_thread {
    uint64_t countdown; /* bytes to the next sample */
    uint32_t epoch;     /* the state's epoch, if only the countdown decides */
    uint32_t drawn;     /* the epoch in which countdown was drawn */
    uint32_t tid;
    bool inside;     /* a sample of this thread is being written */
    bool excluded;   /* never sampled */
    uint64_t random; /* 0 = not seeded yet */
};
extern __thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));

/* Counts an allocation of that size. Returns true if sampler_choose must decide. */
static inline bool sampler_is_due(uint64_t bytes) {
    uint32_t epoch = atomic_load_explicit(&sampler_page.state.epoch, memory_order_relaxed);
    bool other = sampler_thread.epoch != epoch;
    return __builtin_expect(
        other || __builtin_sub_overflow(sampler_thread.countdown, bytes, &sampler_thread.countdown),
        0);
}

struct sampler_choice {
    double objects; /* 1 / probability: how many allocations the sample stands for */
    bool live;
};

/* Whether to sample this allocation. Only after sampler_is_due. */
bool sampler_choose(uint64_t bytes, struct sampler_choice *choice);
/* Notes a sampled allocation that succeeded. caller: the return address of the malloc call. */
void sampler_note(const void *block, uint64_t bytes, const struct sampler_choice *choice,
                  const void *caller);
/* Call it before the real free. Returns true, and what was noted, if the block was sampled. */
bool sampler_forget(const void *block, struct sample *sample);
/* Undoes sampler_forget, because the block was not freed. */
void sampler_restore(const void *block, const struct sample *sample);

/* Never samples the calling thread again. Control thread only. */
void sampler_exclude_self(void);
/* Enables the sampler or changes its options; 0 or an errno. sample_table_open comes first. Control
 * thread only. */
int sampler_enable(const struct sampler_options *options);
/* Stops sampling. Threads may still be writing samples: see sampler_is_quiescent. Control thread
 * only. */
void sampler_disable(void);
/* Whether no thread uses the sample table at this moment. After sampler_disable, true is final.
 * Does not wait. Control thread only. */
bool sampler_is_quiescent(void);
/* In the child of a fork. */
void sampler_after_fork(void);

#pragma GCC visibility pop

#endif
