/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler of allocations: which are taken, and what is noted of them. What stands in malloc's
 * place (stand_in.h) asks here.
 *
 * Each thread counts down the bytes to its next sample: one comparison with the gate's epoch and
 * one subtraction an allocation. The distance is the whole part of an exponential of mean R, which
 * forgets its past, so an allocation of n bytes is taken with the chance 1 - exp(-n / R) whatever
 * came before it. With a probability beside it (or R = 1, which is probability 1) no thread keeps
 * the gate's epoch and each allocation is looked at. The chance is known for each sample, so
 * estimates stay exact however R changes meanwhile.
 *
 * The gate is gone (zero, closed) in the child of a fork, by the kernel's hand. While it is closed,
 * or on the guest's own thread, nothing is taken. Thread and signal safety: signal-safe, but for
 * what says control thread; errno is kept. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLER_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLER_H

#include "service/guest/heap/sample_table.h"

#pragma GCC visibility push(hidden)

struct sampler_demand {
    double mean;        /* bytes between samples; 0 = none are taken so */
    double probability; /* of each allocation, beside that; 0 = not asked */
    bool live;          /* blocks are remembered until they are freed */
};

struct sampler_gate {
    _Atomic uint32_t epoch; /* 0 = nothing is taken: closed, or the demand is being changed */
    _Atomic bool keeps;     /* the samples' memory may be used */
    struct sampler_demand demand;
};
extern union sampler_page {
    struct sampler_gate gate;
    uint8_t bytes[4096];
} sampler_page;

struct sampler_thread {
    uint64_t countdown;
    uint32_t epoch;
    uint32_t drawn; /* the epoch that countdown was drawn in */
    uint32_t tid;
    bool inside, muted;
    uint64_t random; /* 0 = this thread was not here before */
};
extern __thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));

/* Whether sampler_choose is to be asked about an allocation of so many bytes. */
static inline bool sampler_is_due(uint64_t bytes) {
    uint32_t epoch = atomic_load_explicit(&sampler_page.gate.epoch, memory_order_relaxed);
    bool other = sampler_thread.epoch != epoch;
    return __builtin_expect(
        other || __builtin_sub_overflow(sampler_thread.countdown, bytes, &sampler_thread.countdown),
        0);
}

struct sampler_choice {
    double objects; /* 1 / chance */
    bool live;
};

/* Whether this allocation is taken; after sampler_is_due. */
bool sampler_choose(uint64_t bytes, struct sampler_choice *choice);
/* It was made: block, its size, and where it was asked for (a return address). */
void sampler_note(const void *block, uint64_t bytes, const struct sampler_choice *choice,
                  const void *caller);
/* Before the real free: true, with what was noted, when the block is one of the samples. */
bool sampler_forget(const void *block, struct sample *sample);
/* The free did not happen. */
void sampler_restore(const void *block, const struct sample *sample);

/* Control thread. The calling thread is never sampled. */
void sampler_mute(void);
/* Control thread. Opens the gate, or changes the demand; 0 or an errno. samples_open was called. */
int sampler_open(const struct sampler_demand *demand);
/* Control thread. Nothing is taken any more. Threads may still be inside. */
void sampler_close(void);
/* Control thread. Whether nobody is inside: false = ask again later. */
bool sampler_is_quiet(void);
void sampler_after_fork(void);

#pragma GCC visibility pop

#endif
