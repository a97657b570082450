/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns stored frames into locations. Internal to profile_rows.c. */
#ifndef SONDE_SERVICE_STORE_PROFILE_FRAMES_H
#define SONDE_SERVICE_STORE_PROFILE_FRAMES_H

#include "service/store/store.h"

struct profile_frames {
    const struct store_frame **frames; /* borrowed; NULL = unknown */
    uint32_t *locations;               /* location ids, after profile_frames_locate */
    uint32_t count;
};

/* SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err profile_frames_init(struct profile_frames *frames, uint32_t count);
void profile_frames_finish(struct profile_frames *frames); /* zeroed memory is fine */
/* Adds mappings and locations to the profile. Unknown frames get one note. */
SONDE_MUST_USE sonde_err profile_frames_locate(struct profile_frames *frames,
                                               struct sonde_profile *profile);
/* A location that is not code. */
SONDE_MUST_USE sonde_err profile_frames_note(struct sonde_profile *profile, const char *text,
                                             uint32_t *location);

#endif
