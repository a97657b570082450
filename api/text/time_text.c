/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/time_text.h"

#include <string.h>
#include <time.h>

#define NS_PER_S     1000000000ll
#define MAX_UNIX_S   (INT64_MAX / NS_PER_S)
#define MAX_FRACTION 9 /* digits; more are read and ignored */

struct cursor {
    const char *at, *end;
};

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool skip(struct cursor *cursor, char byte) {
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

static bool skip_either(struct cursor *cursor, char one, char other) {
    return skip(cursor, one) || skip(cursor, other);
}

/* Reads from `least` to `most` digits, at most 19. */
static bool read_digits(struct cursor *cursor, int least, int most, int64_t *number) {
    int count = 0;
    *number = 0;
    while (cursor->at < cursor->end && is_digit(*cursor->at)) {
        int digit = *cursor->at++ - '0';
        if (++count > most || *number > (INT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return count >= least;
}

/* Reads ".25" as 250,000,000 if it is there. */
static bool read_fraction(struct cursor *cursor, int64_t *ns) {
    int count = 0;
    *ns = 0;
    if (!skip(cursor, '.'))
        return true;
    for (; cursor->at < cursor->end && is_digit(*cursor->at); cursor->at++)
        if (++count <= MAX_FRACTION)
            *ns = *ns * 10 + (*cursor->at - '0');
    for (int i = count; i < MAX_FRACTION; i++)
        *ns *= 10;
    return count > 0;
}

/* ---- Relative: -1h30m ---- */

static int64_t seconds_of_unit(char unit) {
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    case 'w':
        return 7 * 86400;
    default:
        return 0;
    }
}

static bool read_age(struct cursor *cursor, int64_t now_ns, int64_t *unix_ns) {
    int64_t number, age_s = 0;
    do {
        if (!read_digits(cursor, 1, 10, &number) || cursor->at == cursor->end)
            return false;
        int64_t unit_s = seconds_of_unit(*cursor->at++);
        if (!unit_s)
            return false;
        age_s += number * unit_s; /* at most 10^10 weeks, and few of them in 64 bytes */
    } while (cursor->at < cursor->end);
    if (age_s > now_ns / NS_PER_S)
        return false;
    *unix_ns = now_ns - age_s * NS_PER_S;
    return true;
}

static bool read_relative(struct cursor *cursor, int64_t now_ns, int64_t *unix_ns) {
    if (cursor->end - cursor->at >= 3 && memcmp(cursor->at, "now", 3) == 0) {
        cursor->at += 3;
        *unix_ns = now_ns;
        if (cursor->at == cursor->end)
            return true;
    }
    return skip(cursor, '-') && read_age(cursor, now_ns, unix_ns);
}

/* ---- Unix: 1763869322.5 ---- */

static bool read_unix(struct cursor *cursor, int64_t *unix_ns) {
    const char *begin = cursor->at;
    int64_t number, fraction_ns;
    if (!read_digits(cursor, 1, 19, &number))
        return false;
    long digits = cursor->at - begin;
    int64_t unit_ns = digits < 12 ? NS_PER_S : digits < 15 ? 1000000 : digits < 18 ? 1000 : 1;
    if (!read_fraction(cursor, &fraction_ns) || cursor->at < cursor->end ||
        number > (INT64_MAX - NS_PER_S) / unit_ns)
        return false;
    *unix_ns = number * unit_ns + fraction_ns / (NS_PER_S / unit_ns);
    return true;
}

/* ---- RFC 3339: 2025-11-23T03:42:02.5+01:00 ---- */

static bool read_date(struct cursor *cursor, int64_t *unix_s) {
    int64_t year, month, day;
    if (!read_digits(cursor, 4, 4, &year) || !skip(cursor, '-') ||
        !read_digits(cursor, 2, 2, &month) || !skip(cursor, '-') ||
        !read_digits(cursor, 2, 2, &day) || year < 1970 || month < 1 || month > 12)
        return false;
    struct tm date = {.tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day};
    *unix_s = timegm(&date); /* changes a day that the month does not have */
    return date.tm_mday == day;
}

static bool read_hours_and_minutes(struct cursor *cursor, int64_t *seconds) {
    int64_t hours, minutes;
    if (!read_digits(cursor, 2, 2, &hours) || !skip(cursor, ':') ||
        !read_digits(cursor, 2, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *seconds = hours * 3600 + minutes * 60;
    return true;
}

static bool read_offset(struct cursor *cursor, int64_t *seconds) {
    *seconds = 0;
    if (skip_either(cursor, 'Z', 'z'))
        return true;
    if (skip(cursor, '+'))
        return read_hours_and_minutes(cursor, seconds);
    bool is_read = skip(cursor, '-') && read_hours_and_minutes(cursor, seconds);
    *seconds = -*seconds;
    return is_read;
}

static bool read_rfc3339(struct cursor *cursor, int64_t *unix_ns) {
    int64_t date_s, time_s, second, fraction_ns, offset_s;
    if (!read_date(cursor, &date_s) || (!skip_either(cursor, 'T', 't') && !skip(cursor, ' ')) ||
        !read_hours_and_minutes(cursor, &time_s) || !skip(cursor, ':') ||
        !read_digits(cursor, 2, 2, &second) || second > 60 ||
        !read_fraction(cursor, &fraction_ns) || !read_offset(cursor, &offset_s) ||
        cursor->at < cursor->end)
        return false;
    int64_t unix_s = date_s + time_s + second - offset_s;
    if (unix_s < 0 || unix_s >= MAX_UNIX_S)
        return false;
    *unix_ns = unix_s * NS_PER_S + fraction_ns;
    return true;
}

/* ---- Local: 2025-11-23 03:42:02, 2025-11-23, 03:42 ---- */

/* Reads ":02" if it is there. */
static bool read_seconds(struct cursor *cursor, int64_t *seconds) {
    *seconds = 0;
    return !skip(cursor, ':') || (read_digits(cursor, 2, 2, seconds) && *seconds < 60);
}

/* The moment at which this machine's clock shows a date, in seconds as if it were UTC, and a time
 * of that day. */
static bool of_local(int64_t date_s, int64_t time_s, int64_t *unix_ns) {
    time_t date = (time_t)date_s;
    struct tm local;
    if (!gmtime_r(&date, &local))
        return false;
    local.tm_hour = (int)(time_s / 3600);
    local.tm_min = (int)(time_s / 60 % 60);
    local.tm_sec = (int)(time_s % 60);
    local.tm_isdst = -1; /* mktime finds out */
    time_t unix_s = mktime(&local);
    if (unix_s < 0 || unix_s >= MAX_UNIX_S)
        return false;
    *unix_ns = (int64_t)unix_s * NS_PER_S;
    return true;
}

static bool read_local_date(struct cursor *cursor, int64_t *unix_ns) {
    int64_t date_s, time_s = 0, second = 0;
    if (!read_date(cursor, &date_s))
        return false;
    if (cursor->at < cursor->end &&
        ((!skip_either(cursor, 'T', 't') && !skip(cursor, ' ')) ||
         !read_hours_and_minutes(cursor, &time_s) || !read_seconds(cursor, &second)))
        return false;
    return cursor->at == cursor->end && of_local(date_s, time_s + second, unix_ns);
}

/* The last time at which clocks showed it. */
static bool read_local_time(struct cursor *cursor, int64_t now_ns, int64_t *unix_ns) {
    int64_t time_s, second;
    time_t now = (time_t)(now_ns / NS_PER_S);
    struct tm today;
    if (!read_hours_and_minutes(cursor, &time_s) || !read_seconds(cursor, &second) ||
        cursor->at < cursor->end || !localtime_r(&now, &today))
        return false;
    struct tm date = {.tm_year = today.tm_year, .tm_mon = today.tm_mon, .tm_mday = today.tm_mday};
    int64_t date_s = timegm(&date);
    return of_local(date_s, time_s + second, unix_ns) &&
           (*unix_ns <= now_ns || of_local(date_s - 86400, time_s + second, unix_ns));
}

sonde_err sonde_time_read(struct sonde_slice text, int64_t now_unix_ns, int64_t *unix_ns,
                          struct sonde_diag *diag) {
    struct cursor relative = {text.data, text.data + text.len}, seconds = relative, date = relative,
                  local = relative, clock = relative;
    if (text.len <= 64 &&
        (read_relative(&relative, now_unix_ns, unix_ns) || read_unix(&seconds, unix_ns) ||
         read_rfc3339(&date, unix_ns) || read_local_date(&local, unix_ns) ||
         read_local_time(&clock, now_unix_ns, unix_ns)))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "\"%.*s\" is not a time; use now, -1h, Unix seconds, "
                      "2025-11-23T03:42:02Z, or a local time: 03:42, 2025-11-23 03:42",
                      text.len < 40 ? (int)text.len : 40, text.data);
}

const char *sonde_time_utc(int64_t unix_ns, char text[SONDE_TIME_BYTES]) {
    time_t seconds = (time_t)(unix_ns / NS_PER_S);
    struct tm utc;
    if (unix_ns <= 0 || !gmtime_r(&seconds, &utc) ||
        strftime(text, SONDE_TIME_BYTES, "%Y-%m-%d %H:%M:%S UTC", &utc) == 0)
        text[0] = 0;
    return text;
}
