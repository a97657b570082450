/* SPDX-License-Identifier: Apache-2.0
 *
 * How many refused calls or requests may be logged: a client that is refused all the time must not
 * fill the log. Lines that are left out are counted. Times are milliseconds of one clock. Thread
 * safety: one thread at a time. */
#ifndef SONDE_API_TEXT_LINE_LIMIT_H
#define SONDE_API_TEXT_LINE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LINE_LIMIT_LINES   60
#define LINE_LIMIT_SPAN_MS 60000

/* Zeroed = no line yet. */
struct line_limit {
    int64_t begin_ms; /* of the current minute, which the first line begins */
    uint32_t lines;   /* in it */
    uint64_t left_out;
};

/* Whether one more line may be written; otherwise it is counted. */
bool line_limit_admits(struct line_limit *limit, int64_t now_ms);
/* The number left out since the last call. */
uint64_t line_limit_take(struct line_limit *limit);

#endif
