/* SPDX-License-Identifier: Apache-2.0
 *
 * What the samples of both sides of a comparison say about the nodes of their common call tree.
 * Internal to api/draw. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_COMPARE_EVIDENCE_H
#define SONDE_API_DRAW_COMPARE_EVIDENCE_H

#include "api/draw/tree.h"
#include "api/profile/diff/blocks.h"

#define DRAW_CONFIDENCE         0.95
#define DRAW_EVIDENCE_MAX_CELLS (16u << 20) /* nodes * blocks; 48 bytes each */

struct draw_evidence {
    const struct draw_tree *tree;
    size_t blocks; /* of both sides */
    struct verdict_side sides[2];
    /* Cell number: node * blocks + block. */
    struct verdict_cell *self, *total;
};

/* leaves: the last node of each sample of blocks->both. Borrows the blocks' exposures. Finish it in
 * any case. Errors: SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err draw_evidence_init(struct draw_evidence *evidence,
                                            const struct draw_tree *tree, const uint32_t *leaves,
                                            const struct sonde_blocks *blocks);
void draw_evidence_finish(struct draw_evidence *evidence);
/* The change of the item with that number in an array of cells like the above. */
void draw_evidence_change(const struct draw_evidence *evidence, const struct verdict_cell *cells,
                          uint32_t number, enum verdict_measure measure, double confidence,
                          struct verdict_change *change);
/* The changes of all nodes with all below them, judged together. The caller frees *changes. */
SONDE_MUST_USE sonde_err draw_evidence_nodes(const struct draw_evidence *evidence,
                                             enum verdict_measure measure, double confidence,
                                             struct verdict_change **changes);
/* Sums of all frames' cells: of their own, and with what they called, where recursion counts once.
 * The caller frees both. Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err draw_evidence_frames(const struct draw_evidence *evidence,
                                              struct verdict_cell **self,
                                              struct verdict_cell **total);

#endif
