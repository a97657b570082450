/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/verdict.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* If all samples of a function are on one side, that has a probability of 2 * 0.5^samples by
 * chance. */
static bool can_be_seen(const struct verdict_change *change, double level) {
    return 2 * exp2(-change->samples) <= level;
}

/* The largest p value that is a discovery; negative = there is none. */
static double threshold(double *sorted, size_t count, double level) {
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = count; i > 0; i--)
        if (sorted[i - 1] <= level * (double)i / (double)count)
            return sorted[i - 1];
    return -1;
}

/* A doubling cannot be seen if the interval is wider than the function itself. */
static bool is_blind(const struct verdict_change *change) {
    return (change->high - change->low) / 2 >= fmax(change->before, change->after);
}

sonde_err verdict_judge(struct verdict_change *changes, size_t count, double confidence) {
    double *sorted = malloc((count + 1) * sizeof *sorted), level = 1 - confidence;
    size_t tested = 0;
    if (!sorted)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (can_be_seen(&changes[i], level))
            sorted[tested++] = changes[i].p;
    double largest = threshold(sorted, tested, level);
    free(sorted);
    for (size_t i = 0; i < count; i++) {
        struct verdict_change *change = &changes[i];
        if (change->p <= largest && can_be_seen(change, level))
            change->verdict = change->change > 0 ? VERDICT_MORE : VERDICT_LESS;
        else
            change->verdict = is_blind(change) ? VERDICT_TOO_FEW : VERDICT_NOISE;
    }
    return SONDE_OK;
}

const char *verdict_text(enum verdict verdict) {
    static const char *const texts[] = {"not enough samples", "within noise", "more", "less"};
    return texts[verdict];
}
