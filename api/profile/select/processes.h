/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a profile of several, as captures of `all` have them: the outermost frame of a
 * stack is its process, and the label "pid" its number. Thread safety: one thread at a time per
 * profile. */
#ifndef SONDE_API_PROFILE_SELECT_PROCESSES_H
#define SONDE_API_PROFILE_SELECT_PROCESSES_H

#include "api/profile/profile.h"

struct sonde_process_part {
    const char *name; /* of the outermost frame; "" if that is not a process */
    int64_t pid;      /* 0 = there is no label */
    struct sonde_profile *profile;
};

/* Calls on_part for each process, by pid and name, with a copy of its samples without that frame
 * and that label. on_part takes the profile; the name is valid during the call. An error of on_part
 * ends the split. Errors: those, and those of adding to a profile. */
SONDE_MUST_USE sonde_err sonde_profile_split_processes(
    const struct sonde_profile *profile,
    sonde_err (*on_part)(void *context, const struct sonde_process_part *part), void *context);

#endif
