/* SPDX-License-Identifier: Apache-2.0
 *
 * Amounts recorded: per label set the windows, samples, drops and times, and the union of all
 * windows' intervals. Queries add up what they read in a tally, and each finished hour stores one.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_TALLY_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_TALLY_H

#include "service/store/sqlite/format/chunk.h"

struct tally_entry {
    uint32_t stream, labels; /* the key; 0 as stream in the stored tally of one stream */
    uint64_t windows, samples, dropped, covered_s;
    int64_t first_unix_s, last_unix_s; /* begin of the first window, end of the last one */
    int64_t sum;                       /* of the values, with weight */
    uint64_t weight_milli;             /* the largest weight, in thousandths */
    uint64_t cpu_from_ns,
        cpu_until_ns;    /* the first and the last of its CPU clock; 0, 0 = unknown */
    int64_t clocked_sum; /* `sum` of the windows that have that clock */
};

struct tally_span {
    int64_t begin, end;
};

/* Zeroed memory is an empty tally. */
struct tally {
    struct tally_entry *entries;
    size_t count, capacity;
    struct hash_index index;
    struct tally_span *spans; /* by begin, apart */
    size_t span_count, span_capacity;
    size_t sorted_spans; /* so many at the start are in order */
    uint64_t period_ns;  /* of the window that began last */
    int64_t period_time;
    bool failed; /* out of memory */
};

void tally_finish(struct tally *tally);
void tally_clear(struct tally *tally);
void tally_add(struct tally *tally, uint32_t stream, const struct chunk_window *window);
void tally_add_entry(struct tally *tally, uint32_t stream, const struct tally_entry *entry);
/* All entries of `from`, as those of this stream. */
void tally_append(struct tally *tally, uint32_t stream, const struct tally *from);

void tally_encode(struct tally *tally, struct sonde_buf *buf);
/* Replaces the contents; false: the bytes are damaged, or memory ran out. */
bool tally_decode(struct tally *tally, struct sonde_slice bytes);

/* Puts the spans in order, and joins those that meet. */
void tally_join_spans(struct tally *tally);
/* Fills what a merge reports about its completeness. For a state, no window is missing. */
void tally_report(struct tally *tally, bool is_state, struct store_merge *merge);

#endif
