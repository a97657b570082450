/* SPDX-License-Identifier: Apache-2.0
 *
 * When the samples of a window were taken, for a profile's timeline: a list of (entry of the
 * counts, bin of 20 ms, number). Bounded: with more than SONDE_TIMELINE_MAX items the list is
 * dropped. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_COUNTING_TIME_BINS_H
#define SONDE_SERVICE_ENGINE_COUNTING_TIME_BINS_H

#include <stdbool.h>
#include <stdint.h>

/* The samples of one record stand for the length_ns before end_ns, on the monotonic clock. */
struct time_span {
    uint64_t end_ns, length_ns;
};

struct time_bin {
    uint32_t part, entry; /* of a window's parts; of the part's counts */
    uint32_t bin, count;
};

/* Zeroed memory is an empty list. */
struct time_bins {
    struct time_bin *items;
    uint32_t used, capacity;
    uint32_t *last; /* of each entry of the last part: index of its newest item + 1; 0 = none */
    uint32_t last_capacity, last_part;
    bool is_full; /* or out of memory: there are no items */
};

/* Spreads n samples evenly over their span, as far as it is after start_ns, where bin 0 begins. */
void time_bins_add(struct time_bins *bins, uint32_t part, uint32_t entry,
                   const struct time_span *span, uint64_t start_ns, uint64_t n);
void time_bins_finish(struct time_bins *bins);

#endif
