/* SPDX-License-Identifier: Apache-2.0
 *
 * When the samples of a profile were taken: for each sample (stack, thread and labels), how many
 * fell into which bin of 20 ms since the profile's start. A profile owns at most one timeline. It
 * costs 12 bytes per entry in memory and, compressed, 2 to 3 in a file.
 *
 * In a file:
 *
 *     gzip of: field 1000 of a protobuf message (so that readers of pprof skip it): version (1),
 *     flags (1 = dropped), and per entry, in order of sample and bin, the varints
 *     sample - previous sample; bin, or if the sample is the same bin - previous bin; count
 *
 * Thread safety: one thread at a time per timeline. */
#ifndef SONDE_API_PROFILE_TIMELINE_H
#define SONDE_API_PROFILE_TIMELINE_H

#include "api/profile/profile.h"

#define SONDE_TIMELINE_BIN_MS 20u
#define SONDE_TIMELINE_MAX    (1u << 22) /* entries; a capture with more has no timeline */

struct sonde_timeline_entry {
    uint32_t sample; /* index in the profile */
    uint32_t bin;
    uint32_t count; /* never 0 */
};

/* Memory from malloc. */
struct sonde_timeline {
    struct sonde_timeline_entry *entries; /* in order of sample and bin, all different */
    size_t count;
    bool is_dropped; /* there were too many entries, and all are missing */
};

void sonde_timeline_destroy(struct sonde_timeline *timeline); /* NULL is fine */
/* Sorts the entries and joins equal ones. */
void sonde_timeline_sort(struct sonde_timeline *timeline);
/* Deep copy; NULL when out of memory. */
struct sonde_timeline *sonde_timeline_dup(const struct sonde_timeline *timeline);

/* The profile takes the timeline and frees the one it had. */
void sonde_profile_set_timeline(struct sonde_profile *profile, struct sonde_timeline *timeline);
/* NULL = none. */
const struct sonde_timeline *sonde_profile_timeline(const struct sonde_profile *profile);

/* Appends the file. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE (out's limit). */
SONDE_MUST_USE sonde_err sonde_timeline_write(const struct sonde_timeline *timeline,
                                              struct sonde_buf *out);
/* Reads a file from outside. SONDE_CORRUPT, also if the entries do not fit the profile's samples
 * and their counts; SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_timeline_read(struct sonde_slice file,
                                             const struct sonde_profile *profile,
                                             struct sonde_timeline **timeline,
                                             struct sonde_diag *diag);

/* A part of a profile's time. Its ends are rounded outwards to bins. */
struct sonde_timeline_range {
    uint32_t from_ms, until_ms; /* until_ms 0 = to the end */
};

/* Adds the values of the type to bins of bin_ms (a multiple of 20), of which values[0] begins at
 * range.from_ms. What is outside of the range or of the array is left out. */
void sonde_timeline_sum(const struct sonde_profile *profile, size_t type, uint32_t bin_ms,
                        struct sonde_timeline_range range, int64_t *values, size_t count);
/* A profile of the samples in the range, with the range as comment. The caller destroys it.
 * SONDE_INVALID_ARGUMENT for an empty range or one beyond the end; SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_timeline_cut(const struct sonde_profile *profile,
                                            struct sonde_timeline_range range,
                                            struct sonde_profile **cut, struct sonde_diag *diag);

#endif
