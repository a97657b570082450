/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/changes.h"

#include <math.h>

static double half_width(const struct verdict_change *change) {
    return (change->high - change->low) / 2;
}

void draw_put_percent_change(struct sonde_buf *out, const struct verdict_change *change,
                             double whole) {
    double percent = whole > 0 ? 100 * change->change / whole : 0;
    double half = whole > 0 ? 100 * half_width(change) / whole : INFINITY;
    int digits = half < 0.095 ? 2 : 1;
    sonde_buf_printf(out, "%+.*f %%", digits, percent);
    if (isfinite(half))
        sonde_buf_printf(out, " ± %.*f", digits, half);
}

const char *draw_verdict_mark(const struct sonde_comparison *comparison,
                              const struct verdict_change *change) {
    if (!comparison->has_verdicts || sonde_is_certain(change))
        return "";
    return change->verdict == VERDICT_NOISE ? " ~" : " ?";
}

bool draw_is_noise(const struct sonde_draw_comparison *sides, const char *name,
                   const char *module) {
    const struct sonde_comparison *functions = sides ? sides->functions : NULL;
    if (!functions || !functions->has_verdicts)
        return false;
    const struct sonde_comparison_function *function =
        sonde_comparison_find(functions, name, module);
    return function && function->self[functions->measure].verdict != VERDICT_MORE &&
           function->total[functions->measure].verdict != VERDICT_MORE;
}

#define FEW 0.05 /* share of the total: if larger changes can be overlooked, say so */

static void put_least_change(struct sonde_buf *out, const struct draw_doubts *doubts) {
    double least = doubts->least_share_change;
    if (!doubts->has_verdicts)
        sonde_buf_puts(out,
                       doubts->is_memory
                           ? "which changes of memory are sampling errors is unknown, because "
                             "heaps have samples in common"
                           : "which changes are noise is unknown, because the profiles do not have "
                             "numbers of samples");
    else if (isfinite(least) && least >= FEW)
        sonde_buf_printf(out,
                         "%.0f and %.0f samples: in a large function, changes below %.0f %% of "
                         "the total cannot be seen",
                         doubts->samples[0], doubts->samples[1], 100 * least);
}

void draw_put_doubts(struct sonde_buf *out, const struct draw_doubts *doubts) {
    size_t len = out->len;
    put_least_change(out, doubts);
    if (doubts->has_verdicts && doubts->is_correlated)
        sonde_buf_printf(out,
                         "%sthe work changes slowly within the time of a side, so intervals may be "
                         "too narrow; longer times would show more",
                         out->len > len ? "; " : "");
}
