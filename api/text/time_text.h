/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments as people read them, and as they write them in options and query parameters:
 *
 *     now, -90s, -15m, -1h30m, -7d, -2w      relative to now; also now-1h
 *     1763869322, 1763869322.5               Unix seconds; a number of 12 to 14 digits is read as
 *                                            milliseconds, of 15 to 17 as microseconds, and a
 *                                            longer one as nanoseconds
 *     2025-11-23T03:42:02Z                   RFC 3339, with a fraction or an offset if need be
 *     2025-11-23 03:42:02, 2025-11-23 03:42, 2025-11-23
 *                                            in the time zone of this process (TZ)
 *     03:42:02, 03:42                        the same; the last time that clocks showed it
 *
 * Any thread. */
#ifndef SONDE_API_TEXT_TIME_TEXT_H
#define SONDE_API_TEXT_TIME_TEXT_H

#include "api/bytes.h"
#include "api/error.h"

/* Moments before 1970 or after 2262 do not exist. SONDE_INVALID_ARGUMENT: diag quotes the text and
 * lists the forms. */
SONDE_MUST_USE sonde_err sonde_time_read(struct sonde_slice text, int64_t now_unix_ns,
                                         int64_t *unix_ns, struct sonde_diag *diag);
/* "2025-11-23 03:42:02 UTC", the form in sentences and pictures; "" for 0. Returns the text. */
#define SONDE_TIME_BYTES 32
const char *sonde_time_utc(int64_t unix_ns, char text[SONDE_TIME_BYTES]);

#endif
