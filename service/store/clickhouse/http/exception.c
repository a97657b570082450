/* SPDX-License-Identifier: Apache-2.0
 *
 * ClickHouse's errors as ours. A server of 2018 says
 *     Code: 60, e.displayText() = DB::Exception: Table x doesn't exist., e.what() = DB::Exception
 * and a current one
 *     Code: 60. DB::Exception: Table x doesn't exist. (UNKNOWN_TABLE) (version 24.8.1.1) */
#include "service/store/clickhouse/http/http.h"

#include <stdlib.h>
#include <string.h>

static const struct row {
    int code;
    sonde_err err;
    const char *advice; /* NULL = the server's text */
} rows[] = {
    {159, SONDE_DEADLINE_EXCEEDED,
     "the query takes longer than max_execution_time allows: ask for a shorter range or one "
     "service, or raise it in the store's URL"},
    {160, SONDE_DEADLINE_EXCEEDED,
     "the query would take longer than max_execution_time allows: ask for a shorter range or one "
     "service, or raise it in the store's URL"},
    {241, SONDE_TOO_LARGE,
     "the query needs more memory than max_memory_usage allows: ask for a shorter range or one "
     "service, or raise it in the store's URL"},
    {394, SONDE_CANCELLED, "the query was cancelled on the server"},
    {427, SONDE_INVALID_ARGUMENT,
     "ClickHouse cannot compile the regular expression: it has RE2's syntax, without "
     "backreferences and lookaround"},
    {192, SONDE_PERMISSION_DENIED, NULL}, /* unknown user */
    {193, SONDE_PERMISSION_DENIED, NULL}, /* wrong password */
    {194, SONDE_PERMISSION_DENIED, NULL}, /* password required */
    {195, SONDE_PERMISSION_DENIED, NULL}, /* address not allowed */
    {291, SONDE_PERMISSION_DENIED, NULL}, /* database not allowed */
    {497, SONDE_PERMISSION_DENIED, NULL}, /* lacks a grant */
    {516, SONDE_PERMISSION_DENIED, NULL}, /* authentication failed */
    {164, SONDE_PERMISSION_DENIED, "the user may only read (readonly)"},
    {279, SONDE_UNAVAILABLE, "no replica of some shard answers"},
    {242, SONDE_UNAVAILABLE,
     "the tables are read-only at the moment: the server has lost its ZooKeeper or Keeper"},
    {243, SONDE_UNAVAILABLE, "the server's disk is full"},
    {252, SONDE_UNAVAILABLE, "the server has too many small parts to merge: insert less often"},
    {16, SONDE_INTERNAL, NULL},
    {47, SONDE_INTERNAL, NULL},
    {62, SONDE_INTERNAL, NULL},
};

/* The sentence within the server's text, without its decoration. */
static struct sonde_slice sentence(struct sonde_slice text) {
    static const char begin[] = "DB::Exception: ";
    const char *end = text.data + text.len;
    const char *found = memmem(text.data, text.len, begin, sizeof begin - 1);
    if (found)
        text.data = found + sizeof begin - 1;
    text.len = (size_t)(end - text.data);
    static const char *const tails[] = {", e.what()", " (version ", ". Stack trace", "\n"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        const char *tail = memmem(text.data, text.len, tails[i], strlen(tails[i]));
        if (tail)
            text.len = (size_t)(tail - text.data);
    }
    return text;
}

sonde_err http_exception(const char *server, long status, struct sonde_slice text,
                         struct sonde_diag *diag) {
    char start[32] = "";
    struct row row = {0, SONDE_UNAVAILABLE, NULL};
    if (text.len > 6 && memcmp(text.data, "Code: ", 6) == 0) {
        size_t len = text.len - 6 < sizeof start - 1 ? text.len - 6 : sizeof start - 1;
        memcpy(start, text.data + 6, len);
        row.code = atoi(start);
    }
    if (row.code == 0)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "ClickHouse at %s answered with HTTP status %ld",
                          server, status);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == row.code)
            row = rows[i];
    if (row.advice)
        return sonde_fail(diag, row.err, "ClickHouse at %s: %s", server, row.advice);
    struct sonde_slice said = sentence(text);
    return sonde_fail(diag, row.err, "ClickHouse at %s: %.*s (code %d)", server,
                      (int)(said.len < 200 ? said.len : 200), said.data, row.code);
}
