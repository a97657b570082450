/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that tests profile. Each verb prints what the test must know ("ready ..."), waits for
 * a newline, works, and prints what it did as a word and two numbers. */
#ifndef SONDE_TESTS_UNIT_GUEST_SUBJECT_SUBJECT_H
#define SONDE_TESTS_UNIT_GUEST_SUBJECT_SUBJECT_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* These simulate CPUs of other speeds. SUBJECT_SPINS and SUBJECT_READINGS in the environment set
 * them. */
extern int subject_spins;    /* iterations of the loop between two readings of the clock: 8000 */
extern int subject_readings; /* how often the clock is read each time: 1 */

static inline int64_t subject_clock(clockid_t clock) {
    struct timespec now;
    for (int reading = 0; reading < subject_readings; reading++)
        clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define SUBJECT_MS 1000000ll

/* Runs for a moment without reading the clock. */
#define SUBJECT_SPIN()                                   \
    do {                                                 \
        for (volatile int i = 0; i < subject_spins; i++) \
            continue;                                    \
    } while (0)

/* Uses that much CPU time of the calling thread, in the calling function. */
#define SUBJECT_BURN(ns)                                                     \
    do {                                                                     \
        int64_t subject_end = subject_clock(CLOCK_THREAD_CPUTIME_ID) + (ns); \
        while (subject_clock(CLOCK_THREAD_CPUTIME_ID) < subject_end)         \
            SUBJECT_SPIN();                                                  \
    } while (0)

/* Waits for the test's newline. */
void subject_wait(void);
/* Prints a line: a word and two numbers. */
void subject_say(const char *word, long long a, long long b);
/* Uses that much CPU time in a function that is not inlined. */
void subject_work(int64_t ns);

typedef void subject_verb(int argument);
subject_verb verb_shares, verb_threads, verb_kernel, verb_leaf, verb_labels, verb_idle, verb_clone,
    verb_in_step, verb_deep, verb_coroutine, verb_sigstack;
subject_verb verb_blocked, verb_foreign, verb_eintr, verb_steady, verb_small_stacks, verb_stolen,
    verb_late;
subject_verb verb_forks, verb_exec, verb_refused, verb_embedded, verb_plain, verb_children,
    verb_loader, verb_altstack, verb_registered, verb_short_shares, verb_closer, verb_waits,
    verb_places, verb_steady_crowd, verb_drops, verb_chroot;
subject_verb verb_small_altstack, verb_smallest_altstack, verb_filtered, verb_filtered_process;

#endif
