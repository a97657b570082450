/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions explain a comparison. Internal to api/draw/compare. Thread safety: one thread at
 * a time. */
#ifndef SONDE_API_DRAW_COMPARE_CAUSES_H
#define SONDE_API_DRAW_COMPARE_CAUSES_H

#include "api/draw/compare/comparison.h"
#include "api/draw/compare/evidence.h"

/* Sets the causes. functions: by frame, a pointer into comparison->functions; NULL = none. totals:
 * the frames' cells. Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err comparison_find_causes(
    struct sonde_comparison *comparison, const struct draw_evidence *evidence,
    const struct sonde_comparison_function *const *functions, const struct verdict_cell *totals);

#endif
