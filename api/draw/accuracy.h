/* SPDX-License-Identifier: Apache-2.0
 *
 * The accuracy of values that are estimated from samples: 95 % intervals, as a sentence and for the
 * rows of tables. CPU time is known from the process's clock, so the samples only show how it is
 * shared; memory itself is estimated. Internal to api/draw. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_ACCURACY_H
#define SONDE_API_DRAW_ACCURACY_H

#include "api/draw/tree.h"
#include "api/profile/verdict/verdict.h"

/* Appends "estimated from 3,527 samples (± 3.3 %), one per 64.00 KiB" or "96 samples: shares are
 * exact to about ± 10 points"; nothing if the values are not estimates, differences, or exact to a
 * point. */
void draw_put_accuracy(const struct sonde_profile *profile, size_t type_index,
                       struct sonde_buf *out);

struct draw_accuracy {
    bool is_known;
    bool is_memory;
    struct verdict_cell whole;
    struct verdict_cell *flat, *cum; /* by frame */
};

/* leaves: the last node of each sample in the tree (draw_tree_options). Finish it in any case.
 * Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err draw_accuracy_init(struct draw_accuracy *accuracy,
                                            const struct sonde_profile *profile, size_t type_index,
                                            const struct draw_tree *tree, const uint32_t *leaves);
void draw_accuracy_finish(struct draw_accuracy *accuracy);
/* Half the width of the interval of one of the cells, if it is larger than a tenth of the value;
 * otherwise 0. */
double draw_accuracy_doubt(const struct draw_accuracy *accuracy, const struct verdict_cell *cell);

#endif
