/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two profiles, stack by stack. They may be of two versions of a program: functions match
 * by their name and by the role of their file (the main program, a library without its version, the
 * kernel), not by the file's name or by address. In files of the same build, different addresses
 * are different stacks, so that lines can also be compared.
 *
 * Sample types that both have, by name and unit, are compared; a comment lists the others. Both
 * must have been sampled in the same way: SONDE_INVALID_ARGUMENT if no sample type is common, or if
 * their period types differ, or their periods. Different periods are allowed if both profiles are
 * unbiased (sonde_profile_info) or if only the type that is sampled (cpu/nanoseconds) is compared.
 * Further errors: SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. The caller destroys the result, which is
 * NULL on failure. Thread safety: any thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_PROFILE_DIFF_DIFF_H
#define SONDE_API_PROFILE_DIFF_DIFF_H

#include "api/profile/profile.h"

struct sonde_diff_options {
    bool normalise;      /* first scale the new values to the base's total, type by type */
    bool growth_only;    /* only stacks whose value of `type` grew */
    bool by_function;    /* leave out addresses and lines: a stack is a list of functions */
    bool keep_addresses; /* for formats that show them; functions match nevertheless */
    bool merge_threads;  /* with by_function: also leave out threads */
    const char *type;    /* default sample type of the result; NULL: that of `now` */
};

/* `now` minus `base`, like `go tool pprof -diff_base`: values may be negative, and unchanged stacks
 * are left out. Info and comments are those of `now`. options may be NULL. */
SONDE_MUST_USE sonde_err sonde_profile_diff(const struct sonde_profile *base,
                                            const struct sonde_profile *now,
                                            const struct sonde_diff_options *options,
                                            struct sonde_profile **diff, struct sonde_diag *diag);

/* Splits a file of `go tool pprof -diff_base`: samples with the string label pprof::base are *base,
 * without the label and with positive values, all others are *now. Both are NULL if no sample has
 * the label; otherwise the caller destroys them. */
SONDE_MUST_USE sonde_err sonde_profile_split_base(const struct sonde_profile *profile,
                                                  struct sonde_profile **base,
                                                  struct sonde_profile **now);

/* A copy with all values times scale, rounded. */
SONDE_MUST_USE sonde_err sonde_profile_scaled(const struct sonde_profile *profile, double scale,
                                              struct sonde_profile **copy);

/* Both profiles side by side, for the sample type of that name (NULL: the default): type 0 has the
 * new values, type 1 ("before") those of `base`. Comments are those of `now`. SONDE_PALETTE_DIFF
 * draws it with base_index 1. */
SONDE_MUST_USE sonde_err sonde_profile_compare(const struct sonde_profile *base,
                                               const struct sonde_profile *now, const char *type,
                                               struct sonde_profile **both,
                                               struct sonde_diag *diag);

#endif
