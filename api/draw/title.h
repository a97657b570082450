/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profile is of, in words: the program, what was measured, how and when; and the two sides
 * of a difference. Internal to api/draw. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_TITLE_H
#define SONDE_API_DRAW_TITLE_H

#include "api/draw/draw.h"

/* "redis-server": the target's name if a comment of the profile has it, otherwise the program's
 * file name. Appends nothing if neither is known. */
void draw_put_target(struct sonde_buf *out, const struct sonde_profile *profile);
/* Whether the target is the whole machine, all processes of a name, a process tree, or all services
 * of a history. */
bool draw_is_of_several(const struct sonde_profile *profile);
/* "CPU", "live heap": what a sample type measures. */
const char *draw_measure(const struct sonde_profile *profile, size_t type_index);
/* Bytes or objects, which are compared by their amount and not by their share. */
bool draw_is_memory(const struct sonde_value_type *type);
/* "redis-server, CPU, 10 s at 99 Hz, 2026-11-23 15:04:05 UTC"; "redis-server, CPU, difference". */
void draw_put_title(struct sonde_buf *out, const struct sonde_profile *profile,
                    const struct sonde_draw_options *options, const char *unknown_target);
void draw_put_time(struct sonde_buf *out, int64_t unix_ns);         /* nothing for 0 */
void draw_put_duration(struct sonde_buf *out, int64_t nanoseconds); /* "0.5 s", "10 s" */

/* draw_value or draw_short_value */
typedef void draw_value_writer(struct sonde_buf *out, int64_t value, const char *unit);
/* "capture 6, 2026-11-23 15:04:05 UTC, 10 s, 9.82 s" */
void draw_put_side(struct sonde_buf *out, const struct sonde_draw_side *side, const char *unit,
                   draw_value_writer *put_value);
/* "+141.00 MiB": a value with its sign. */
void draw_put_change(struct sonde_buf *out, int64_t change, const char *unit);
/* "+141.00 MiB (+58.3 % of the base)" */
void draw_put_total_change(struct sonde_buf *out, const struct sonde_draw_comparison *comparison,
                           const char *unit, draw_value_writer *put_value);

#endif
