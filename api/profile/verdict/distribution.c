/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/distribution.h"

#include <math.h>

#define MOST_DEGREES 1e6 /* with more, the normal distribution is exact to 6 digits */
#define LARGEST      1e9 /* quantile of 1 degree of freedom for a confidence of 1 - 1e-9 */
#define TINY         1e-300
#define TERMS        300

/* Coefficient number m of the continued fraction: 8.17.23. */
static double coefficient(double a, double b, double x, int m) {
    double half = m / 2;
    if (m % 2)
        return -(a + half) * (a + b + half) * x / ((a + m - 1) * (a + m));
    return half * (b - half) * x / ((a + m - 1) * (a + m));
}

static double not_zero(double value) {
    return fabs(value) < TINY ? TINY : value;
}

/* Unlike lgamma, this writes no global variable. */
static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* The regularized incomplete beta function for x < (a + 1) / (a + b + 2), where the fraction
 * converges. Evaluated from the front, by Lentz's method. */
static double beta_fraction(double a, double b, double x) {
    double log_factor = log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x);
    double upper = 1, lower = 0, value = 1;
    for (int m = 1; m < TERMS; m++) {
        double term = coefficient(a, b, x, m);
        lower = 1 / not_zero(1 + term * lower);
        upper = not_zero(1 + term / upper);
        value *= upper * lower;
        if (fabs(upper * lower - 1) < 1e-14)
            break;
    }
    return exp(log_factor) / (a * value);
}

static double beta(double a, double b, double x) {
    if (x <= 0 || x >= 1)
        return x > 0;
    return x < (a + 1) / (a + b + 2) ? beta_fraction(a, b, x) : 1 - beta_fraction(b, a, 1 - x);
}

double verdict_tail(double t, double degrees) {
    t = fabs(t);
    if (degrees > MOST_DEGREES)
        return erfc(t / M_SQRT2);
    return beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double verdict_quantile(double confidence, double degrees) {
    double low = 0, high = 1;
    while (high < LARGEST && verdict_tail(high, degrees) > 1 - confidence)
        high *= 2;
    while (high - low > 1e-10 * high) {
        double middle = (low + high) / 2;
        if (verdict_tail(middle, degrees) > 1 - confidence)
            low = middle;
        else
            high = middle;
    }
    return high;
}
