/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/random.h"

#include <string.h>

#define LN2 0.69314718055994530942

/* splitmix64 */
uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* -ln(u / 2^53) for u in 1..2^53. The mantissa m is in [1, 2), and ln m = 2
 * atanh((m - 1) / (m + 1)), whose argument is below 1/3, so that ten terms of the series
 * suffice. */
static double minus_log(uint64_t u) {
    double value = (double)u, m;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
    memcpy(&m, &bits, sizeof m);
    static const double odd[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1};
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int i = 0; i < 10; i++)
        sum = sum * square + odd[i];
    return (53 - exponent) * LN2 - 2 * z * sum;
}

uint64_t random_distance(uint64_t *state, double mean) {
    return (uint64_t)(minus_log((random_next(state) >> 11) + 1) * mean);
}

/* (1 - exp(-f)) / f for f below ln 2: the coefficients are (-1)^(n - 1) / n!, from n = 14 down. */
static double series(double f) {
    static const double terms[] = {-1.0 / 87178291200, 1.0 / 6227020800,
                                   -1.0 / 479001600,   1.0 / 39916800,
                                   -1.0 / 3628800,     1.0 / 362880,
                                   -1.0 / 40320,       1.0 / 5040,
                                   -1.0 / 720,         1.0 / 120,
                                   -1.0 / 24,          1.0 / 6,
                                   -1.0 / 2,           1};
    double sum = 0;
    for (int i = 0; i < 14; i++)
        sum = sum * f + terms[i];
    return sum;
}

/* Small x: the series alone, which loses no digits near 0. Larger x: exp(-x) = 2^-k exp(-f) with f
 * below ln 2, and the series for exp(-f). */
double random_hit_probability(double x) {
    if (x >= 40)
        return 1;
    int k = (int)(x * (1 / LN2));
    if (k == 0)
        return x * series(x);
    double f = x - k * LN2, scale;
    uint64_t bits = (uint64_t)(1023 - k) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return 1 - scale * (1 - f * series(f));
}
