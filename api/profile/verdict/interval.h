/* SPDX-License-Identifier: Apache-2.0
 *
 * Confidence intervals of one share or count: Wilson's (1927, JASA 22, page 209) and the score
 * interval of a Poisson count, its limit for a small share. Both also have limits if nothing was
 * counted. q is a quantile of the normal distribution or of Student's t: 1.96 for 95 %. Thread
 * safety: any thread. */
#ifndef SONDE_API_PROFILE_VERDICT_INTERVAL_H
#define SONDE_API_PROFILE_VERDICT_INTERVAL_H

#define VERDICT_Q95 1.959963985

struct verdict_limits {
    double low, high;
};

/* Of a share, from 0 to 1, that was found in that many samples. INFINITY samples are exact. */
struct verdict_limits verdict_wilson(double share, double samples, double q);
/* Of the mean of a Poisson distribution from which `count` was drawn. */
struct verdict_limits verdict_poisson(double count, double q);
/* Half the width. */
double verdict_half_width(struct verdict_limits limits);

#endif
