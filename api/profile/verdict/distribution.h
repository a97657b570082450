/* SPDX-License-Identifier: Apache-2.0
 *
 * Student's t distribution; with INFINITY degrees of freedom it is the normal distribution. The
 * formulas are 26.7.1 of Abramowitz and Stegun and the continued fraction 8.17.22 of dlmf.nist.gov
 * for the incomplete beta function. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_VERDICT_DISTRIBUTION_H
#define SONDE_API_PROFILE_VERDICT_DISTRIBUTION_H

/* The probability of a value outside -t to t. degrees > 0. */
double verdict_tail(double t, double degrees);
/* The t that a value exceeds on either side with the probability 1 - confidence: 1.96 for 0.95 and
 * INFINITY degrees. confidence: 0 to 1, both exclusive. */
double verdict_quantile(double confidence, double degrees);

#endif
