/* SPDX-License-Identifier: Apache-2.0
 *
 * The program under the guest: verbs of known behaviour. Each says what the test must know ("ready
 * ..."), waits for a newline, works, and says what it did as two numbers. */
#ifndef SONDE_TESTS_UNIT_GUEST_SUBJECT_H
#define SONDE_TESTS_UNIT_GUEST_SUBJECT_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline int64_t subject_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define SUBJECT_MS 1000000ll

/* Burns so much CPU time of the calling thread in the calling function. */
#define SUBJECT_BURN(ns)                                                     \
    do {                                                                     \
        int64_t subject_end = subject_clock(CLOCK_THREAD_CPUTIME_ID) + (ns); \
        while (subject_clock(CLOCK_THREAD_CPUTIME_ID) < subject_end)         \
            for (volatile int subject_i = 0; subject_i < 8000; subject_i++)  \
                continue;                                                    \
    } while (0)

/* Waits for the tester's newline. */
void subject_wait(void);
/* One line: a word and two numbers. */
void subject_say(const char *word, long long a, long long b);
/* A function with a name of its own that burns so much. */
void subject_work(int64_t ns);

typedef void subject_verb(int argument);
subject_verb verb_shares, verb_threads, verb_kernel, verb_leaf, verb_labels, verb_idle, verb_clone,
    verb_in_step, verb_deep, verb_coroutine, verb_sigstack;
subject_verb verb_blocked, verb_foreign, verb_eintr, verb_steady, verb_small_stacks, verb_stolen,
    verb_late;
subject_verb verb_forks, verb_exec, verb_refused, verb_embedded, verb_plain, verb_children,
    verb_loader, verb_altstack, verb_registered, verb_short_shares, verb_closer, verb_waits,
    verb_places, verb_steady_crowd, verb_drops, verb_jail;

#endif
