/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/interval.h"

#include <math.h>

struct verdict_limits verdict_wilson(double share, double samples, double q) {
    double square = isinf(samples) ? 0 : q * q / samples;
    double middle = (share + square / 2) / (1 + square);
    double half = sqrt(square * (share * (1 - share) + square / 4)) / (1 + square);
    return (struct verdict_limits){middle - half, middle + half};
}

struct verdict_limits verdict_poisson(double count, double q) {
    double middle = count + q * q / 2, half = q * sqrt(count + q * q / 4);
    return (struct verdict_limits){middle - half, middle + half};
}

double verdict_half_width(struct verdict_limits limits) {
    return (limits.high - limits.low) / 2;
}
