/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that only wait for work. Thread safety: any thread; the profile must not change
 * meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_IDLE_H
#define SONDE_API_PROFILE_SELECT_IDLE_H

#include "api/profile/profile.h"

/* A copy without the time of idle threads: those that spent at least 90 % of their time with one
 * stack, which the copy does not have. In wall-clock time that can be a thread that is busy at one
 * place. If a comment of `profile` says that idle threads are already left out, the copy is a plain
 * one: with what is left, other threads would count as idle. `profile` measures wall-clock or
 * off-CPU time. Samples without the labels "thread" and "tid" stay. A comment says how many threads
 * and how much time are left out. The caller destroys *copy. SONDE_INVALID_ARGUMENT (another
 * measure), SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_profile_without_idle(const struct sonde_profile *profile,
                                                    struct sonde_profile **copy,
                                                    struct sonde_diag *diag);

#endif
