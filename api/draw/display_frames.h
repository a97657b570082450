/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames that each location of a profile has in pictures, from the outermost function to the
 * innermost inlined one. Internal to api/draw/tree. */
#ifndef SONDE_API_DRAW_DISPLAY_FRAMES_H
#define SONDE_API_DRAW_DISPLAY_FRAMES_H

#include "api/draw/tree.h"

struct draw_frames {
    uint32_t *first; /* by location id: index in ids of its first frame; one extra at the end */
    uint32_t *ids;   /* frame numbers */
};

SONDE_MUST_USE sonde_err draw_frames_init(struct draw_frames *frames, struct draw_tree *tree,
                                          const struct sonde_profile *profile);
void draw_frames_finish(struct draw_frames *frames);
/* Stores the frame of the thread that a sample was taken on; PROFILE_TABLE_NONE if it has no thread
 * label. Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err draw_frames_thread(struct draw_tree *tree,
                                            const struct sonde_profile *profile,
                                            const struct sonde_sample *sample, uint32_t *frame);

#endif
