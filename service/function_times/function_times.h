/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time of functions on an allow-list, summed per target name from the windows of a recorder:
 * the metric sonde_function_cpu_seconds_total. A sample counts for each function that is anywhere
 * on its stack, once even if the function is there several times. Sums only grow, and stay when a
 * process ends.
 *
 * Limits: 100 functions, and 10,000 sums. When there is no room for another target's name, its time
 * is added to the target "other". Thread safety: any thread, except create and destroy. */
#ifndef SONDE_SERVICE_FUNCTION_TIMES_FUNCTION_TIMES_H
#define SONDE_SERVICE_FUNCTION_TIMES_FUNCTION_TIMES_H

#include "api/error.h"
#include "api/profile/profile.h"

#define FUNCTION_TIMES_FUNCTIONS 100
#define FUNCTION_TIMES_SUMS      10000
#define FUNCTION_TIMES_NAME      256 /* longest function name, in bytes */

struct function_times;

/* The names are copied. A name is that of a function in profiles, with or without its arguments:
 * "parse_request", "ns::Class::method" or "ns::Class::method(int)". A name that is given twice
 * counts once. SONDE_INVALID_ARGUMENT: too many names, an empty or too long one. */
SONDE_MUST_USE sonde_err function_times_create(const char *const *names, size_t count,
                                               struct function_times **times,
                                               struct sonde_diag *diag);
void function_times_destroy(struct function_times *times); /* NULL is fine */

/* Adds a window of a CPU profile. From the first window on, the target has a sum for every
 * function. */
void function_times_add(struct function_times *times, const char *target,
                        const struct sonde_profile *profile);

struct function_time {
    const char *target, *function; /* borrowed from times */
    uint64_t cpu_ns;
};

/* Calls on_time for each sum, with a lock held: it must return quickly. */
void function_times_list(struct function_times *times,
                         void (*on_time)(void *context, const struct function_time *time),
                         void *context);

#endif
