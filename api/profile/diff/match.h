/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares profiles of two runs, or of two versions of a program, for a comparison stack by stack.
 * Internal to api/profile. Thread safety: any thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_PROFILE_DIFF_MATCH_H
#define SONDE_API_PROFILE_DIFF_MATCH_H

#include "api/profile/profile.h"

/* Two profiles whose equal code is equal. */
struct profile_pair {
    const struct sonde_profile *base, *now;
    struct sonde_profile *owned_base, *owned_now; /* the latter is NULL if now stays as it is */
};

/* Makes a copy of base in terms of `now`. Its code is in the files of now that play the same role:
 * the file of that build or name, otherwise the main program for the main program, and for a
 * library the one whose name differs only in its version. If both are of one process that is a
 * frame (TargetSelector.all), it is the same process. In the same build, addresses are moved to
 * where now has them, and an address that now has, too, has the names of now. In another build,
 * functions match by name, also if the compiler made a variant of one ("parse.isra.0"). Code
 * without names in another build cannot be matched: it becomes one frame per file on both sides,
 * "[file]", or stays different code with keep_addresses. Finish the pair in any case. Errors:
 * SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err profile_match(const struct sonde_profile *base,
                                       const struct sonde_profile *now, bool keep_addresses,
                                       struct profile_pair *pair);
void profile_pair_finish(struct profile_pair *pair);

/* A copy without addresses, lines and labels other than the thread, so that stacks of the same
 * functions are one sample. A stack that has more than SONDE_PROFILE_MAX_DEPTH frames with its
 * inlined functions loses the outermost. The rest is as above. */
SONDE_MUST_USE sonde_err profile_by_function(const struct sonde_profile *profile,
                                             bool merge_threads, struct sonde_profile **copy);

#endif
