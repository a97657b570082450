/* SPDX-License-Identifier: Apache-2.0
 *
 * Where functions of a profile of several processes ran. Internal to api/draw. */
#ifndef SONDE_API_DRAW_PLACES_H
#define SONDE_API_DRAW_PLACES_H

#include "api/draw/tree.h"

/* By frame: the process that spent most in the function, and how many did. */
struct draw_place {
    uint32_t process; /* frame; PROFILE_TABLE_NONE = none */
    uint32_t count;
    int64_t most, now; /* `now`: of the process that is counted */
};

/* The processes are the children of the tree's root. NULL if out of memory; the caller frees it. */
struct draw_place *draw_places(const struct draw_tree *tree);

/* "redis-server"; nothing if no process is known. */
void draw_put_process(struct sonde_buf *out, const struct draw_tree *tree,
                      const struct draw_place *place);

#endif
