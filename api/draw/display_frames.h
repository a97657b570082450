/* SPDX-License-Identifier: Apache-2.0
 *
 * What each location of a profile is called in pictures: its frames from the outermost to the
 * innermost inlined one. Internal to api/draw/tree. */
#ifndef SONDE_API_DRAW_DISPLAY_FRAMES_H
#define SONDE_API_DRAW_DISPLAY_FRAMES_H

#include "api/draw/tree.h"

struct draw_frames {
    uint32_t *starts; /* of each location id in ids; one more at the end */
    uint32_t *ids;    /* frame numbers */
};

SONDE_MUST_USE sonde_err draw_frames_init(struct draw_frames *frames, struct draw_tree *tree,
                                          const struct sonde_profile *profile);
void draw_frames_finish(struct draw_frames *frames);
/* The number of the equal frame, or of a new one whose strings are copied. PROFILE_TABLE_NONE: out
 * of memory. */
uint32_t draw_frames_intern(struct draw_tree *tree, const struct draw_frame *frame);
/* The thread a sample was taken on, copied into the tree; PROFILE_TABLE_NONE when the sample does
 * not say. */
SONDE_MUST_USE sonde_err draw_frames_thread(struct draw_tree *tree,
                                            const struct sonde_profile *profile,
                                            const struct sonde_sample *sample, uint32_t *frame);

#endif
